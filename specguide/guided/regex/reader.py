"""Owns the position in the text of a regular expression while it is read, and the errors that name
it."""

from __future__ import annotations

from specguide.guided.regex.tree import RegexError, UnsupportedRegex


class Reader:
    """A text, and how far it has been read. flags: letters of the flags that apply from here on"""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = 0
        self.flags = frozenset[str]()

    @property
    def ignores_case(self) -> bool:
        """Whether case is ignored from here on."""
        return "i" in self.flags

    def at_end(self) -> bool:
        """Whether the whole text has been read."""
        return self.pos >= len(self.text)

    def peek(self, length: int = 1) -> str:
        """The next characters, or fewer at the end."""
        return self.text[self.pos : self.pos + length]

    def take(self, length: int = 1) -> str:
        """Read `length` characters. Raises RegexError where there are fewer."""
        taken = self.peek(length)
        if len(taken) < length:
            raise self.malformed("ends too early")
        self.pos += length
        return taken

    def skip(self, text: str) -> bool:
        """Read `text` if it comes next. Returns whether it did."""
        is_next = self.text.startswith(text, self.pos)
        self.pos += len(text) if is_next else 0
        return is_next

    def malformed(self, what: str) -> RegexError:
        """The error for a text that no dialect allows."""
        return RegexError(f"{what} at position {self.pos} of the regular expression {self.text!r}")

    def unsupported(self, what: str) -> UnsupportedRegex:
        """The error for a construct that is not regular, or that engines read differently."""
        return UnsupportedRegex(
            f"{what} at position {self.pos} of the regular expression {self.text!r} cannot be "
            "enforced"
        )
