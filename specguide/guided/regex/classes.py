"""Owns the reading of character classes and escapes in regular expressions."""

from __future__ import annotations

from functools import lru_cache

from specguide.guided.regex.cases import any_case
from specguide.guided.regex.charset import DIGIT, SPACE, WORD, CharSet, exactly, union
from specguide.guided.regex.properties import unicode_property
from specguide.guided.regex.reader import Reader

_LONGEST_CODE = 7
_SECOND_HALVES = tuple(f"\\u{one}{two}" for one in "dD" for two in "cdefCDEF")
"""The beginnings of the escape that forms one character together with the surrogate half before
it."""
_CLASSES = {"d": DIGIT, "D": ~DIGIT, "w": WORD, "W": ~WORD, "s": SPACE, "S": ~SPACE}
_LONGEST_POSIX = len("[:^xdigit:]")
_LONGEST_PROPERTY = 50
_CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "0": 0}


@lru_cache(maxsize=4096)
def one(code: int) -> CharSet:
    """The set of one character."""
    return exactly((code, code))


def read_class(reader: Reader) -> CharSet:
    """The characters of a class whose `[` was read."""
    negated = reader.skip("^")
    if reader.peek() == "]":
        raise reader.malformed("an empty character class (write \\] for the bracket)")
    items: list[CharSet] = []
    while not reader.skip("]"):
        low = _class_item(reader)
        has_end = reader.peek() == "-" and reader.peek(2) != "-]"
        items.append(_range(reader, low) if has_end and _is_single(low) else low)
    found = CharSet(union(*(item.inner for item in items)), union(*(item.outer for item in items)))
    if reader.ignores_case:
        found = any_case(found)
    return ~found if negated else found


def _range(reader: Reader, low: CharSet) -> CharSet:
    """The characters from `low` to the end of the range, whose dash comes next. `low` alone where
    no character ends it: "a-\\d" is the letter, the dash and the digits."""
    before = reader.pos
    reader.take()
    high = _class_item(reader)
    if not _is_single(high):
        reader.pos = before
        return low
    first, last = low.inner[0][0], high.inner[0][0]
    if first > last:
        raise reader.malformed("a character range the wrong way round")
    return exactly((first, last))


def _class_item(reader: Reader) -> CharSet:
    refused = _refused_item(reader.peek(_LONGEST_POSIX))
    if refused is not None:
        raise reader.unsupported(f"{refused}, which engines read differently,")
    char = reader.take()
    return read_escape(reader, in_class=True) if char == "\\" else one(ord(char))


def _refused_item(text: str) -> str | None:
    """Inside a class: the construct that a text begins with, where only some engines read it as
    more than its characters; else None."""
    if text.startswith("&&["):
        return "an intersection of classes"
    name, closed, _ = text.removeprefix("[:").partition(":]")
    is_posix = text.startswith("[:") and closed and name.removeprefix("^").isalpha()
    return f"the POSIX class [:{name}:]" if is_posix else None


def read_escape(reader: Reader, in_class: bool) -> CharSet:
    """The characters of an escape whose backslash was read."""
    char = reader.take()
    if char in _CLASSES:
        return _CLASSES[char]
    if char == "b" and in_class:
        return one(8)
    if char in _CONTROLS and not (char == "0" and reader.peek().isdigit()):
        return one(_CONTROLS[char])
    if char == "x":
        return one(_hexadecimal(reader, 2))
    if char == "u":
        return one(_unicode(reader))
    if char == "c" and reader.peek().isascii() and reader.peek().isalpha():
        return one(ord(reader.take()) % 32)
    if char in "pP" and reader.skip("{"):
        return _property(reader, negated=char == "P")
    refused = _refused(char)
    if refused is not None:
        raise reader.unsupported(refused)
    return one(ord(char))


def _property(reader: Reader, negated: bool) -> CharSet:
    """The characters of a Unicode property, or all others, where its `{` was read."""
    name, closed, _ = reader.peek(_LONGEST_PROPERTY).partition("}")
    chars = unicode_property(name) if closed else None
    if chars is None:
        raise reader.unsupported(
            f"the Unicode property {name!r}, which is no general category as \\p{{L}}, none of the "
            "larger scripts as \\p{Script=Greek}, and none of Alphabetic, Uppercase, Lowercase, "
            "White_Space, ASCII, ASCII_Hex_Digit, Any and those of emoji,"
        )
    reader.take(len(name) + 1)
    return ~chars if negated else chars


def _refused(char: str) -> str | None:
    """What the escape of a character would mean, where no backend enforces it; None where it means
    the character itself."""
    if char == "B":
        return "a place without a word boundary, which engines read differently,"
    if char in "pP":
        return "a Unicode property without braces, which engines read differently,"
    if char.isdigit():
        return "an octal escape"
    if char.isascii() and char.isalpha():
        return f"the escape \\{char}, which engines read differently,"
    return None


def _hexadecimal(reader: Reader, length: int) -> int:
    digits = reader.take(length)
    try:
        return int(digits, 16)
    except ValueError:
        raise reader.malformed(f"a \\x or \\u escape needs {length} hexadecimal digits") from None


def _unicode(reader: Reader) -> int:
    if reader.skip("{"):
        digits, closed, _ = reader.peek(_LONGEST_CODE).partition("}")
        if not closed or not 1 <= len(digits) <= 6:
            raise reader.malformed("a \\u{…} escape needs 1 to 6 hexadecimal digits")
        code = _hexadecimal(reader, len(digits))
        reader.take()
        if code > 0x10FFFF:
            raise reader.malformed("a \\u{…} escape beyond the last character")
        return code
    code = _hexadecimal(reader, 4)
    if not 0xD800 <= code < 0xDC00 or reader.peek(4) not in _SECOND_HALVES:
        return code
    reader.take(2)
    return 0x10000 + ((code - 0xD800) << 10) + _hexadecimal(reader, 4) - 0xDC00


def _is_single(chars: CharSet) -> bool:
    return (
        chars.inner == chars.outer
        and len(chars.inner) == 1
        and chars.inner[0][0] == chars.inner[0][1]
    )
