"""Owns JsonPrefix: which bytes may follow a beginning of a JSON text (RFC 8259, in UTF-8), for any
schema."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

END = 256
"""Stands for the end of the text; its number comes after those of the bytes."""
_SPACES = b" \t\n\r"
_DIGITS = b"0123456789"
_HEX = b"0123456789abcdefABCDEF"
_LITERALS = {word[0]: word[1:] for word in (b"true", b"false", b"null")}
_NUMBER = {
    "-": {b"0": "0", b"123456789": "int"},
    "0": {b".": "point", b"eE": "e"},
    "int": {_DIGITS: "int", b".": "point", b"eE": "e"},
    "point": {_DIGITS: "fraction"},
    "fraction": {_DIGITS: "fraction", b"eE": "e"},
    "e": {b"+-": "sign", _DIGITS: "power"},
    "sign": {_DIGITS: "power"},
    "power": {_DIGITS: "power"},
}
"""What may follow inside a number, by state."""
_WHOLE = ("0", "int", "fraction", "power")
_FIRST_OF_CHARS = (  # lead bytes, how many follow, the range of the second: RFC 3629
    (range(0xC2, 0xE0), 1, (0x80, 0xBF)),
    (range(0xE0, 0xE1), 2, (0xA0, 0xBF)),
    (range(0xE1, 0xED), 2, (0x80, 0xBF)),
    (range(0xED, 0xEE), 2, (0x80, 0x9F)),
    (range(0xEE, 0xF0), 2, (0x80, 0xBF)),
    (range(0xF0, 0xF1), 3, (0x90, 0xBF)),
    (range(0xF1, 0xF4), 3, (0x80, 0xBF)),
    (range(0xF4, 0xF5), 3, (0x80, 0x8F)),
)


class _Mode(NamedTuple):
    """The position inside a token, or between two tokens. what: its kind; rest: what is known of
    its state"""

    what: str
    rest: Any = None
    is_key: bool = False


_Step = tuple[_Mode, str]
"""The mode after a byte, and the bracket that the byte opens, or "-" if it closes one."""
_AFTER, _VALUE = _Mode("after"), _Mode("value")


class JsonPrefix:
    """A beginning of a JSON text, byte by byte."""

    def __init__(self) -> None:
        self._mode = _VALUE
        self._open = ""

    def take(self, byte: int) -> bool:
        """Whether the byte may follow; if not, nothing changes."""
        step = _step(self._mode, self._open[-1:], byte)
        if step is None:
            return False
        self._mode, opened = step
        self._open = self._open[:-1] if opened == "-" else self._open + opened
        return True

    @property
    def viable(self) -> npt.NDArray[np.bool_]:
        """[257] which bytes may follow, and whether END may."""
        return _viable(self._mode, self._open[-1:])


@lru_cache(maxsize=2048)
def _viable(mode: _Mode, inside: str) -> npt.NDArray[np.bool_]:
    bits = np.array([_step(mode, inside, byte) is not None for byte in range(256)] + [False])
    is_whole = mode == _AFTER or (mode.what == "number" and mode.rest in _WHOLE)
    bits[END] = is_whole and not inside
    return bits


@lru_cache(maxsize=65536)
def _step(mode: _Mode, inside: str, byte: int) -> _Step | None:
    """inside: the innermost open bracket. None if the byte may not follow"""
    if mode.what == "string":
        return _in_string(mode, byte)
    if mode.what == "number":
        follow = _NUMBER[mode.rest].items()
        found = next((state for some, state in follow if byte in some), None)
        if found is not None:
            return _Mode("number", found), ""
        return _between(_AFTER, inside, byte) if mode.rest in _WHOLE else None
    if mode.what == "literal":
        if byte != mode.rest[0]:
            return None
        return (_Mode("literal", mode.rest[1:]) if len(mode.rest) > 1 else _AFTER), ""
    return _between(mode, inside, byte)


def _between(mode: _Mode, inside: str, byte: int) -> _Step | None:
    char = chr(byte)
    if byte in _SPACES:
        return mode, ""
    if mode.what == "after" and inside:
        if char == ",":
            return (_Mode("key") if inside == "{" else _VALUE), ""
        return (_AFTER, "-") if char == _closer(inside) else None
    if mode.what == "colon":
        return (_VALUE, "") if char == ":" else None
    if mode.what in ("first key", "first item") and char == _closer(inside):
        return _AFTER, "-"
    if mode.what in ("key", "first key"):
        return (_Mode("string", "", True), "") if char == '"' else None
    return None if mode.what == "after" else _value(byte)


def _closer(inside: str) -> str:
    return "}" if inside == "{" else "]"


def _value(byte: int) -> _Step | None:
    """The first byte of a value."""
    if byte in b"{[":
        return _Mode("first key" if byte == ord("{") else "first item"), chr(byte)
    if byte == ord('"'):
        return _Mode("string", ""), ""
    if byte in _LITERALS:
        return _Mode("literal", _LITERALS[byte]), ""
    if byte in b"-0":
        return _Mode("number", chr(byte)), ""
    return (_Mode("number", "int"), "") if byte in _DIGITS else None


def _in_string(mode: _Mode, byte: int) -> _Step | None:
    """rest of the mode: "" between characters, "\\\\" behind a backslash, or what is still to come:
    a number of hexadecimal digits, or a list of ranges."""
    plain = mode._replace(rest="")
    if mode.rest == "":
        if byte == ord('"'):
            return (_Mode("colon") if mode.is_key else _AFTER), ""
        if byte == ord("\\"):
            return mode._replace(rest="\\"), ""
        if byte < 0x80:
            return (plain, "") if byte >= 0x20 else None
        return next(
            (
                (mode._replace(rest=(second, *((0x80, 0xBF),) * (num - 1))), "")
                for leads, num, second in _FIRST_OF_CHARS
                if byte in leads
            ),
            None,
        )
    if mode.rest == "\\":
        if byte == ord("u"):
            return mode._replace(rest=4), ""
        return (plain, "") if byte in b'"\\/bfnrt' else None
    if isinstance(mode.rest, int):
        left: Any = mode.rest - 1
        return (mode._replace(rest=left or ""), "") if byte in _HEX else None
    (low, high), *others = mode.rest
    return (mode._replace(rest=tuple(others) or ""), "") if low <= byte <= high else None
