"""Owns the bounds of a core node's numbers, and whether any number is within them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import TypeVar

from specguide.guided.budget import spend
from specguide.guided.schema.core.nodes import Numbers
from specguide.guided.schema.json_values import Number, exact

_MAX_TRIED = 10_000
_Exact = TypeVar("_Exact", Decimal, Fraction)


def bounds(
    numbers: Numbers, read: Callable[[Number], _Exact]
) -> tuple[tuple[_Exact, bool] | None, tuple[_Exact, bool] | None]:
    """Returns the greatest lower and the least upper bound, each with whether it is exclusive; None
    for no bound.

    read: turns a JSON number into an exact one
    """
    lows = _ends(numbers.minimum, numbers.exclusive_minimum, read)
    highs = _ends(numbers.maximum, numbers.exclusive_maximum, read)
    high = min(highs, key=lambda end: (end[0], not end[1]), default=None)
    return max(lows, default=None), high


def _ends(
    bound: Number | None, exclusive: Number | None, read: Callable[[Number], _Exact]
) -> list[tuple[_Exact, bool]]:
    both = ((bound, False), (exclusive, True))
    return [(read(one), is_left_out) for one, is_left_out in both if one is not None]


def holds_number(numbers: Numbers, whole: bool) -> bool:
    """Whether some number, or for `whole` some integer, meets the constraints."""
    if numbers.not_multiples:
        return _holds_other_number(numbers, whole)
    step = None if numbers.multiple_of is None else exact(numbers.multiple_of)
    if numbers.is_fraction and step is not None and step.denominator == 1:
        return False
    low, high = bounds(numbers, exact)
    if low is None or high is None:
        return True
    if whole:
        step = Fraction(1 if step is None else step.numerator)
    if step is None:
        return low[0] < high[0] or (low[0] == high[0] and not low[1] and not high[1])
    factors = _factors(step, low, high)
    if numbers.is_fraction and factors.stop - factors.start == 1:
        return factors.start % step.denominator != 0
    return bool(factors)


def _holds_other_number(numbers: Numbers, whole: bool) -> bool:
    """Whether some multiple of the step is a multiple of none of `not_multiples`; tries a limited
    number of them and says yes beyond."""
    if not holds_number(replace(numbers, not_multiples=()), whole):
        return False
    step = exact(1 if numbers.multiple_of is None else numbers.multiple_of)
    step = Fraction(step.numerator) if whole or numbers.multiple_of is None else step
    if not numbers.is_fraction and any(
        step % exact(multiple) == 0 for multiple in numbers.not_multiples
    ):
        return not whole and numbers.multiple_of is None
    low, high = bounds(numbers, exact)
    if low is None or high is None or (not whole and numbers.multiple_of is None):
        return True
    factors = _factors(step, low, high)
    num_factors = factors.stop - factors.start
    spend(max(0, min(num_factors, _MAX_TRIED)))
    others = [exact(multiple) for multiple in numbers.not_multiples]
    return num_factors > _MAX_TRIED or any(
        all(step * factor % multiple for multiple in others) for factor in factors
    )


def _factors(step: Fraction, low: tuple[Fraction, bool], high: tuple[Fraction, bool]) -> range:
    """The integers whose product with the step is within the bounds."""
    first = math.floor(low[0] / step) + 1 if low[1] else math.ceil(low[0] / step)
    last = math.ceil(high[0] / step) - 1 if high[1] else math.floor(high[0] / step)
    return range(first, last + 1)
