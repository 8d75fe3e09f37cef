"""Owns the escapes of characters beyond U+FFFF in an EBNF grammar: they are replaced by the
characters, as libraries read the escapes differently. Takes linear time."""

from __future__ import annotations

from string import hexdigits

from specguide.errors import InvalidGuide
from specguide.guided.notations.grammar_form import ebnf_parts

_FIRST_HALVES, _SECOND_HALVES = range(0xD800, 0xDC00), range(0xDC00, 0xE000)
_BEYOND = range(0x10000, 0x110000)
_HEX = frozenset(hexdigits)


def with_whole_characters(source: str) -> str:
    """A grammar with characters in place of escapes such as `\\U0001f600`, and of pairs of
    surrogate halves that `\\u` spells, as in JSON. Raises InvalidGuide for a half alone, and for
    codes of no character."""
    if "\\u" not in source and "\\U" not in source:
        return source
    return "".join(
        _written(text) if sign in ('"', "[") else text for sign, text in ebnf_parts(source)
    )


def _written(text: str) -> str:
    """A literal or a class with whole characters."""
    written = []
    done = 0
    at = text.find("\\")
    while at >= 0:
        code, end = spelled_code(text, at)
        if code in _FIRST_HALVES:
            second, behind = spelled_code(text, end)
            if second in _SECOND_HALVES:
                code = 0x10000 + ((code - 0xD800) << 10) + second - 0xDC00
                end = behind
        if code in _FIRST_HALVES or code in _SECOND_HALVES:
            raise InvalidGuide(
                f"{text[at:end]} in the grammar is half of a surrogate pair, which is no "
                "character; write both halves, or the character",
                param="grammar",
            )
        if code >= _BEYOND.stop:
            raise InvalidGuide(
                f"{text[at:end]} in the grammar is beyond the last character, U+10FFFF",
                param="grammar",
            )
        if code in _BEYOND:
            written += [text[done:at], chr(code)]
            done = end
        at = text.find("\\", end)
    return "".join([*written, text[done:]])


def spelled_code(text: str, at: int) -> tuple[int, int]:
    """The code of the hexadecimal escape at a position, -1 for another escape, and the position
    behind it."""
    num_digits = {"\\u": 4, "\\U": 8}.get(text[at : at + 2], 0)
    digits = text[at + 2 : at + 2 + num_digits]
    if num_digits and len(digits) == num_digits and _HEX.issuperset(digits):
        return int(digits, 16), at + 2 + num_digits
    return -1, at + 2
