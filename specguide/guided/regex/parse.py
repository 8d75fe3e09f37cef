"""Owns the regular expressions of guides: one dialect, read into a tree whose meaning no backend
can change.

The dialect is what ECMA-262 and Python's `re` agree on, the regular part of it: literals, classes,
groups, alternatives, repetitions, the anchors `^` and `$`, and lookaheads. Lazy repetitions
describe the same strings as greedy ones. What is not regular or means different things to different
engines (lookbehind, backreferences, word boundaries, flags) is refused by name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from specguide.guided.budget import spend
from specguide.guided.regex.charset import DIGIT, DOT, SPACE, WORD, CharSet, exactly, union

MAX_REPETITION = 100_000
MAX_NESTING = 100


class RegexError(ValueError):
    """A regular expression is malformed."""


class UnsupportedRegex(RegexError):
    """A regular expression uses a feature that no backend enforces."""


@dataclass(frozen=True)
class Chars:
    """One character of a set."""

    chars: CharSet


@dataclass(frozen=True)
class Concat:
    """Its items one after the other; none of them: the empty string."""

    items: tuple[Node, ...]


@dataclass(frozen=True)
class Either:
    """Any one of its items; none of them: nothing at all matches."""

    items: tuple[Node, ...]


@dataclass(frozen=True)
class Repeat:
    """`least` to `most` times its item; most None: no limit."""

    item: Node
    least: int
    most: int | None


@dataclass(frozen=True)
class Anchor:
    """The start (`at_start`) or the end of the text."""

    at_start: bool


@dataclass(frozen=True)
class Look:
    """A lookahead: what follows begins with `node`, or (`negative`) does not."""

    node: Node
    negative: bool


Node = Chars | Concat | Either | Repeat | Anchor | Look

MAX_CHARS = 1 << 16
_STEPS_A_CHARACTER = 8
_LONGEST_COUNT = 16
_LONGEST_CODE = 7
_OF_COUNTS = frozenset("0123456789,")

EMPTY = Concat(())
NOTHING = Either(())

_CLASSES = {"d": DIGIT, "D": ~DIGIT, "w": WORD, "W": ~WORD, "s": SPACE, "S": ~SPACE}
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "0": 0}
_GROUPS = {
    "<=": "lookbehind",
    "<!": "negative lookbehind",
    ">": "an atomic group",
    "(": "a conditional group",
    "#": "a comment",
    "P=": "a backreference",
}


def parse(text: str) -> Node:
    """The tree of a regular expression. Raises RegexError, or UnsupportedRegex naming the
    feature."""
    if len(text) > MAX_CHARS:
        raise UnsupportedRegex(
            f"a regular expression of {len(text)} characters, more than {MAX_CHARS}, is too long"
        )
    spend(_STEPS_A_CHARACTER * len(text))
    parser = _Parser(text)
    node = parser.alternatives(0)
    if not parser.at_end():
        raise parser.malformed("unmatched ')'")
    return node


def literal(text: str) -> Node:
    """The tree that matches `text` alone."""
    return Concat(tuple(Chars(exactly((ord(char), ord(char)))) for char in text))


def literals(texts: Iterable[str]) -> Node:
    """The tree that matches each of the texts."""
    return Either(tuple(map(literal, texts)))


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = 0

    def at_end(self) -> bool:
        return self.pos >= len(self.text)

    def peek(self, length: int = 1) -> str:
        return self.text[self.pos : self.pos + length]

    def take(self, length: int = 1) -> str:
        taken = self.peek(length)
        if len(taken) < length:
            raise self.malformed("ends too early")
        self.pos += length
        return taken

    def skip(self, text: str) -> bool:
        found = self.text.startswith(text, self.pos)
        self.pos += len(text) if found else 0
        return found

    def malformed(self, what: str) -> RegexError:
        return RegexError(f"{what} at position {self.pos} of the regular expression {self.text!r}")

    def unsupported(self, what: str) -> UnsupportedRegex:
        return UnsupportedRegex(
            f"{what} at position {self.pos} of the regular expression {self.text!r} cannot be "
            "enforced"
        )

    def alternatives(self, depth: int) -> Node:
        if depth > MAX_NESTING:
            raise self.unsupported(f"nesting deeper than {MAX_NESTING} groups")
        items = [self.sequence(depth)]
        while self.skip("|"):
            items.append(self.sequence(depth))
        return items[0] if len(items) == 1 else Either(tuple(items))

    def sequence(self, depth: int) -> Node:
        items: list[Node] = []
        while not self.at_end() and self.peek() not in "|)":
            item = self.repeated(self.atom(depth))
            if not (
                isinstance(item, Anchor) and items and items[-1] == item
            ):  # twice the same says nothing more
                items.append(item)
        return items[0] if len(items) == 1 else Concat(tuple(items))

    def repeated(self, item: Node) -> Node:
        bounds = self.bounds()
        if bounds is None:
            return item
        if isinstance(item, (Anchor, Look)):
            raise self.unsupported("a repeated anchor or lookahead")
        self.skip("?")
        if self.peek() == "+":
            raise self.unsupported("a possessive repetition")
        if self.bounds() is not None:
            raise self.malformed("two repetitions in a row")
        return Repeat(item, *bounds)

    def bounds(self) -> tuple[int, int | None] | None:
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.skip(sign):
                return bounds
        count = self.count(self.pos)
        if count is None:
            return None
        least, comma, most = count.partition(",")
        if not least:
            raise self.unsupported(
                "a repetition without a lower bound, which engines read differently,"
            )
        low, high = int(least), (int(most) if most else None) if comma else int(least)
        if max(low, high or 0) > MAX_REPETITION:
            raise self.unsupported(f"more than {MAX_REPETITION} repetitions")
        if high is not None and low > high:
            raise self.malformed("a repetition whose bounds are the wrong way round")
        self.pos += len(count) + 2
        return low, high

    def count(self, start: int) -> str | None:
        """What braces that begin at `start` hold; None where they are no repetition and stand for
        themselves."""
        if self.text[start : start + 1] != "{":
            return None
        end = start + 1
        while self.text[end : end + 1] in _OF_COUNTS:
            end += 1
        count = self.text[start + 1 : end]
        least, _, most = count.partition(",")
        if self.text[end : end + 1] != "}" or not (least or most) or "," in most:
            return None
        if len(count) > _LONGEST_COUNT:
            raise self.unsupported(f"more than {MAX_REPETITION} repetitions")
        return count

    def atom(self, depth: int) -> Node:
        char = self.take()
        if char == "(":
            return self.group(depth)
        if char == "[":
            return Chars(self.char_class())
        if char == "\\":
            return Chars(self.escape(in_class=False))
        if char == ".":
            return Chars(DOT)
        if char in "^$":
            return Anchor(char == "^")
        if char in "*+?":
            raise self.malformed(f"nothing before {char!r} to repeat")
        if not (self.count(self.pos - 1) or ",").startswith(","):
            raise self.malformed("nothing before '{' to repeat")
        return Chars(_one(ord(char)))

    def group(self, depth: int) -> Node:
        if self.skip("?=") or self.skip("?!"):
            return self.look(self.text[self.pos - 1] == "!", depth)
        if self.skip("?"):
            for sign, name in _GROUPS.items():
                if self.text.startswith(sign, self.pos):
                    raise self.unsupported(name)
            if self.skip("P<") or self.skip("<"):
                end = self.text.find(">", self.pos)
                if not self.text[self.pos : max(end, self.pos)].isidentifier():
                    raise self.malformed("a group without a proper name")
                self.pos = end + 1
            elif not self.skip(":"):
                raise self.unsupported("a flag")
        node = self.alternatives(depth + 1)
        if not self.skip(")"):
            raise self.malformed("missing ')'")
        return node

    def look(self, negative: bool, depth: int) -> Look:
        node = self.alternatives(depth + 1)
        if not self.skip(")"):
            raise self.malformed("missing ')'")
        return Look(node, negative)

    def char_class(self) -> CharSet:
        negated = self.skip("^")
        if self.peek() == "]":
            raise self.malformed("an empty character class")
        items: list[CharSet] = []
        while not self.skip("]"):
            low = self.class_item()
            if self.peek() == "-" and self.peek(2) != "-]" and _is_single(low):
                mark = self.pos
                self.take()
                high = self.class_item()
                if _is_single(high):
                    if low.inner[0][0] > high.inner[0][0]:
                        raise self.malformed("a character range the wrong way round")
                    low = exactly((low.inner[0][0], high.inner[0][0]))
                else:
                    self.pos = mark  # "a-\d" is the letter, the dash and the digits
            items.append(low)
        found = CharSet(
            union(*(item.inner for item in items)), union(*(item.outer for item in items))
        )
        return ~found if negated else found

    def class_item(self) -> CharSet:
        char = self.take()
        return self.escape(in_class=True) if char == "\\" else _one(ord(char))

    def escape(self, in_class: bool) -> CharSet:
        char = self.take()
        if char in _CLASSES:
            return _CLASSES[char]
        if char == "b" and in_class:
            return _one(8)
        if char in "bB":
            raise self.unsupported("a word boundary")
        if char == "0" and self.peek().isdigit():
            raise self.unsupported("an octal escape")
        if char in _CONTROLS:
            return _one(_CONTROLS[char])
        if char == "x":
            return _one(self.hexadecimal(2))
        if char == "u":
            return _one(self.unicode())
        if char == "c" and self.peek().isascii() and self.peek().isalpha():
            return _one(ord(self.take()) % 32)
        if char in "pP":
            raise self.unsupported("a Unicode property")
        if char.isdigit() or char == "k":
            raise self.unsupported("a backreference")
        if char.isascii() and char.isalpha():
            raise self.unsupported(f"the escape \\{char}, which engines read differently,")
        return _one(ord(char))

    def hexadecimal(self, length: int) -> int:
        digits = self.take(length)
        try:
            return int(digits, 16)
        except ValueError:
            raise self.malformed(f"a \\x or \\u escape needs {length} hexadecimal digits") from None

    def unicode(self) -> int:
        if self.skip("{"):
            digits, closed, _ = self.peek(_LONGEST_CODE).partition("}")
            if not closed or not 1 <= len(digits) <= 6:
                raise self.malformed("a \\u{…} escape needs 1 to 6 hexadecimal digits")
            code = self.hexadecimal(len(digits))
            self.take()
            if code > 0x10FFFF:
                raise self.malformed("a \\u{…} escape beyond the last character")
            return code
        code = self.hexadecimal(4)
        if 0xD800 <= code < 0xDC00 and self.skip("\\u"):
            return 0x10000 + ((code - 0xD800) << 10) + (self.hexadecimal(4) - 0xDC00) % 0x400
        return code


def _one(code: int) -> CharSet:
    return exactly((code, code))


def _is_single(chars: CharSet) -> bool:
    return (
        chars.inner == chars.outer
        and len(chars.inner) == 1
        and chars.inner[0][0] == chars.inner[0][1]
    )
