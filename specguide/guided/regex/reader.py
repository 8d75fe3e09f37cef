"""Owns the way through the text of a regular expression, and the errors that name a position in
it."""

from __future__ import annotations

from specguide.guided.regex.tree import RegexError, UnsupportedRegex


class Reader:
    """A text and how far it has been read. flags: letters of those that hold for what comes next"""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = 0
        self.flags = frozenset[str]()

    @property
    def ignores_case(self) -> bool:
        """Whether what comes next does."""
        return "i" in self.flags

    def at_end(self) -> bool:
        """Whether all has been read."""
        return self.pos >= len(self.text)

    def peek(self, length: int = 1) -> str:
        """The next characters, or fewer at the end."""
        return self.text[self.pos : self.pos + length]

    def take(self, length: int = 1) -> str:
        """Reads as many characters. Raises RegexError where there are fewer."""
        taken = self.peek(length)
        if len(taken) < length:
            raise self.malformed("ends too early")
        self.pos += length
        return taken

    def skip(self, text: str) -> bool:
        """Reads a text if it comes next, and says whether it did."""
        found = self.text.startswith(text, self.pos)
        self.pos += len(text) if found else 0
        return found

    def malformed(self, what: str) -> RegexError:
        """The error for what is in no dialect."""
        return RegexError(f"{what} at position {self.pos} of the regular expression {self.text!r}")

    def unsupported(self, what: str) -> UnsupportedRegex:
        """The error for what is not regular, or is read in several ways."""
        return UnsupportedRegex(
            f"{what} at position {self.pos} of the regular expression {self.text!r} cannot be "
            "enforced"
        )
