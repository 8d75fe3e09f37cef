"""Owns sets of characters, as sorted code point ranges, and the character classes of regular
expressions.

Regular expression dialects agree on most characters and differ on a few: whether `\\d` matches
digits of other scripts, which line ends `.` leaves out. A CharSet therefore has two bounds. `inner`
is what every dialect matches, and what is generated; `outer` is what some dialect matches. Negation
swaps them, so what is generated stays right in all dialects.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from specguide.guided.budget import kept
from specguide.guided.quick import quick

Ranges = tuple[tuple[int, int], ...]
"""Inclusive code point ranges, sorted, with at least one code point between two of them."""

EVERYTHING: Ranges = ((0, 0xD7FF), (0xE000, 0x10FFFF))
"""Every character; surrogates are not characters."""

JSON_TEXT: Ranges = ((0x08, 0x0A), (0x0C, 0x0D), (0x20, 0xD7FF), (0xE000, 0x10FFFF))
"""The characters that a JSON string can contain without `\\u` escapes."""

JSON_UNESCAPED: Ranges = ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0xD7FF), (0xE000, 0x10FFFF))
"""The characters that a JSON string can contain without any escape."""


def holds(ranges: Ranges, code: int) -> bool:
    """Whether the character with this code point is in the set."""
    at = bisect(ranges, (code, 0x110000)) - 1
    return at >= 0 and ranges[at][1] >= code


def union(*sets: Iterable[tuple[int, int]]) -> Ranges:
    """The characters that are in any of the sets."""
    if len(sets) == 1 and isinstance(sets[0], tuple) and len(sets[0]) == 1:
        return sets[0]
    merged: list[tuple[int, int]] = []
    for low, high in sorted(chain.from_iterable(sets)):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


@kept
def intersect(left: Ranges, right: Ranges) -> Ranges:
    """The characters that are in both sets."""
    common: list[tuple[int, int]] = []
    i = j = 0
    while i < len(left) and j < len(right):
        low = max(left[i][0], right[j][0])
        high = min(left[i][1], right[j][1])
        if low <= high:
            common.append((low, high))
        if left[i][1] == high:
            i += 1
        else:
            j += 1
    return tuple(common)


def complement(ranges: Ranges) -> Ranges:
    """The characters that are not in the set."""
    result, start = [], 0
    for low, high in ranges:
        if start < low:
            result.append((start, low - 1))
        start = high + 1
    if start <= 0x10FFFF:
        result.append((start, 0x10FFFF))
    return intersect(tuple(result), EVERYTHING)


@quick
@dataclass(frozen=True)
class CharSet:
    """A character class. Every dialect has the characters of `inner` in it, some dialect those of
    `outer`; inner ⊆ outer."""

    inner: Ranges
    outer: Ranges

    def __invert__(self) -> CharSet:
        return CharSet(complement(self.outer), complement(self.inner))

    def __or__(self, other: CharSet) -> CharSet:
        return CharSet(union(self.inner, other.inner), union(self.outer, other.outer))

    def __and__(self, other: CharSet) -> CharSet:
        return CharSet(intersect(self.inner, other.inner), intersect(self.outer, other.outer))


def exactly(*ranges: tuple[int, int]) -> CharSet:
    """The set of these ranges, the same in every dialect."""
    found = ranges if len(ranges) == 1 else union(ranges)
    return CharSet(found, found)


_DIGITS = (0x30, 0x39)
_WORD = (_DIGITS, (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
_SPACES = (
    (0x09, 0x0D),
    (0x20, 0x20),
    (0xA0, 0xA0),
    (0x1680, 0x1680),
    (0x2000, 0x200A),
    (0x2028, 0x2029),
    (0x202F, 0x202F),
    (0x205F, 0x205F),
    (0x3000, 0x3000),
)
_SPACES_OF_SOME = ((0x1C, 0x1F), (0x85, 0x85), (0xFEFF, 0xFEFF))

_ZEROS = (
    *(0x660, 0x6F0, 0x7C0, 0x966, 0x9E6, 0xA66, 0xAE6, 0xB66, 0xBE6, 0xC66, 0xCE6, 0xD66, 0xDE6),
    *(0xE50, 0xED0, 0xF20, 0x1040, 0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90, 0x1B50),
    *(0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0, 0xA9F0, 0xAA50, 0xABF0, 0xFF10),
    0x1FBF0,
)
_DIGITS_OF_SOME = (*((zero, zero + 9) for zero in _ZEROS), (0x10000, 0x1EFFF))
"""Decimal digits of other scripts; the last range has scripts to which digits are still added."""
_NO_WORD = (
    *((0x80, 0xA9), (0xAB, 0xB1), (0xB4, 0xB4), (0xB6, 0xB8), (0xBB, 0xBB), (0xBF, 0xBF)),
    *((0xD7, 0xD7), (0xF7, 0xF7), (0x2010, 0x203E), (0x2041, 0x2053), (0x2055, 0x205E)),
    *((0x20A0, 0x20C0), (0x2190, 0x2426), (0x2500, 0x2775), (0x2794, 0x2BFF), (0x3000, 0x3004)),
    *((0x3008, 0x3020), (0x3030, 0x3030), (0xFF01, 0xFF0F), (0xFF1A, 0xFF20), (0xFF3B, 0xFF3E)),
    *((0xFF5B, 0xFF65), (0x1F000, 0x1F0FF), (0x1F300, 0x1F6FF), (0x1F900, 0x1FAFF)),
)
"""Punctuation, symbols and emoji that are in no dialect's `\\w`; a part of all such characters."""

DIGIT = CharSet(union([_DIGITS]), union([_DIGITS], _DIGITS_OF_SOME))
SPACE = CharSet(union(_SPACES), union(_SPACES, _SPACES_OF_SOME))
WORD = CharSet(union(_WORD), union(_WORD, complement(union([(0, 0x7F)], _NO_WORD, SPACE.outer))))
DOT = ~CharSet(((0x0A, 0x0A),), ((0x0A, 0x0A), (0x0D, 0x0D), (0x85, 0x85), (0x2028, 0x2029)))
