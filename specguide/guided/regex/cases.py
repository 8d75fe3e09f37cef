"""Owns which characters differ in case alone, as regular expressions see it that ignore case."""

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
    """A set with the characters that differ from its own in case alone: in every dialect those that
    are each other's upper and lower case, in some all that have such a character in common."""
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
    """Characters, each with the one of the other case that all dialects know."""
    pairs = ((char, char.swapcase()) for char in map(chr, range(_LAST_CASED + 1)))
    return tuple(
        (ord(one), ord(two))
        for one, two in pairs
        if one != two and len(two) == 1 and two.swapcase() == one
    )


@lru_cache(maxsize=1)
def _groups() -> tuple[tuple[int, ...], ...]:
    """The characters that some dialect takes for each other: k, K and the sign of kelvin."""
    groups: dict[str, list[int]] = defaultdict(list)
    for code in range(_LAST_CASED + 1):
        groups[chr(code).upper().casefold().removesuffix(_DOT_ABOVE)].append(code)
    return tuple(tuple(group) for group in groups.values() if len(group) > 1)
