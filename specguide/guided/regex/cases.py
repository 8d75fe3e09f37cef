"""Owns the sets of characters that differ only in case, for regular expressions that ignore
case."""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache

from specguide.guided.budget import kept, spend
from specguide.guided.regex.charset import CharSet, holds, union

_LAST_CASED = 0x1E943
_STEPS_A_SET = 2_000
_DOT_ABOVE = "\u0307"


@kept
def any_case(chars: CharSet) -> CharSet:
    """A set with the characters that differ only in case from its own: in every dialect those that
    are each other's upper and lower case, in some dialect all that have such a character in
    common."""
    spend(_STEPS_A_SET)
    swapped = ((two, two) for one, two in _swaps() if holds(chars.inner, one))
    akin = (
        (code, code)
        for group in _groups()
        if any(holds(chars.outer, one) for one in group)
        for code in group
    )
    return CharSet(union(chars.inner, swapped), union(chars.outer, akin))


@lru_cache(maxsize=1)
def _swaps() -> tuple[tuple[int, int], ...]:
    """Pairs of a character and its other case, which all dialects know."""
    pairs = ((char, char.swapcase()) for char in map(chr, range(_LAST_CASED + 1)))
    return tuple(
        (ord(one), ord(two))
        for one, two in pairs
        if one != two and len(two) == 1 and two.swapcase() == one
    )


@lru_cache(maxsize=1)
def _groups() -> tuple[tuple[int, ...], ...]:
    """Characters that some dialect takes as equal, e.g. k, K and the kelvin sign."""
    groups: dict[str, list[int]] = defaultdict(list)
    for code in range(_LAST_CASED + 1):
        groups[chr(code).upper().casefold().removesuffix(_DOT_ABOVE)].append(code)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)
