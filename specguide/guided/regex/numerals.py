"""Owns trees of the JSON numerals between two bounds: exact for decimals of any length, and within
a double's range.

Numerals without exponents are complete. With exponents there are only normalized ones, such as
1.5e-07, whose exponent tells their size. All comparisons use decimal digits, so nothing is rounded.
Source: RFC 8259, section 6.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import lru_cache

from specguide.guided.quick import quick
from specguide.guided.regex.charset import exactly
from specguide.guided.regex.decimals import (
    MAX_DIGITS,
    Bound,
    decimal_numerals,
    digit_from,
    fraction_part,
    whole_numbers,
)
from specguide.guided.regex.tree import (
    EMPTY,
    NOTHING,
    Chars,
    Regex,
    Repeat,
    concat,
    either,
    literal,
)

MAX_EXPONENT = 308
"""Greatest exponent of normalized numerals, that of the greatest double."""
_MIN_EXPONENT = -307
_GREATEST_DOUBLE = Decimal(repr(sys.float_info.max)), False
_LONG = 200
_EXACT = Context(prec=10_000, Emin=-100_000, Emax=100_000)


@quick
@dataclass(frozen=True)
class Interval:
    """The numbers between two bounds; None: no bound.

    kind:   "number", "integer", or "fraction" for numbers that are not integers
    digits: most digits before the point, unless a bound needs more; larger numbers have exponents
    """

    low: Bound | None = None
    high: Bound | None = None
    kind: str = "number"
    digits: int = MAX_DIGITS


@lru_cache(maxsize=1024)
def numerals(interval: Interval) -> Regex:
    """A tree of the numerals of an interval's numbers; NOTHING where there are none."""
    low, high, zero = interval.low, interval.high, (Decimal(0), False)
    positive = _magnitudes(_higher(low, zero), high, interval)
    negative = _magnitudes(_higher(_negated(high), zero), _negated(low), interval)
    return _with_signs(positive, negative)


def endless_numerals(interval: Interval) -> Regex:
    """See `numerals`; without exponents and of any length within the bounds. It has -0 only where
    there is no bound at all. The kind must be "number" or "integer"."""
    low, high, kind = interval.low, interval.high, interval.kind
    is_bounded = low is not None or high is not None
    positive = _endless(_higher(low, (Decimal(0), False)), high, kind)
    negative = _endless(_higher(_negated(high), (Decimal(0), is_bounded)), _negated(low), kind)
    return _with_signs(positive, negative)


def _with_signs(positive: Regex, negative: Regex) -> Regex:
    """Numerals with and without a minus sign. negative: the unsigned numerals of negative
    numbers"""
    if positive == negative:
        return concat(Repeat(literal("-"), 0, 1), positive)
    return either([positive, concat(literal("-"), negative)])


def _endless(low: Bound, high: Bound | None, kind: str) -> Regex:
    if high is not None:
        if high[0] < low[0] or (high[0] == low[0] and (low[1] or high[1])):
            return NOTHING
        return _integers(low, high) if kind == "integer" else decimal_numerals(low, high, False)
    num_digits = max(1, low[0].adjusted() + 1)
    part = EMPTY if kind == "integer" else fraction_part(None, None, False)
    digits = Repeat(digit_from(0, 9), num_digits, None)
    short = _endless(low, (Decimal(10**num_digits), True), kind)
    return either([short, concat(digit_from(1, 9), digits, part)])


def _negated(bound: Bound | None) -> Bound | None:
    return None if bound is None else (bound[0].copy_negate(), bound[1])


def _higher(bound: Bound | None, other: Bound) -> Bound:
    return other if bound is None or bound < other else bound


def _magnitudes(low: Bound, high: Bound | None, interval: Interval) -> Regex:
    """Unsigned numerals of the numbers from `low`, which is not negative."""
    if high is not None and (high[0] < low[0] or (high[0] == low[0] and (low[1] or high[1]))):
        return NOTHING
    longest = (Decimal(10 ** max(interval.digits, min(low[0].adjusted() + 2, MAX_DIGITS))), True)
    if interval.kind == "integer":
        return _integers(low, high or longest)
    is_fraction = interval.kind == "fraction"
    most = longest if high is None else min(high, longest)
    with_exponents = _with_exponents(low, high, is_fraction, interval.digits)
    if low[0] < most[0] or most == high:
        return either([decimal_numerals(low, most, is_fraction), with_exponents])
    return with_exponents


def _integers(low: Bound, high: Bound) -> Regex:
    first = int(low[0].to_integral_value("ROUND_CEILING", _EXACT))
    first += low[1] and first == low[0]
    last = int(high[0].to_integral_value("ROUND_FLOOR", _EXACT))
    last -= high[1] and last == high[0]
    return whole_numbers(first, last)


def _with_exponents(low: Bound, high: Bound | None, is_fraction: bool, digits: int) -> Regex:
    """Normalized numerals with an exponent. If all positive numbers are in the interval, also
    others with a small exponent."""
    greatest = _GREATEST_DOUBLE if high is None else min(high, _GREATEST_DOUBLE)
    if low[0] > greatest[0]:
        return NOTHING
    if high is None and low == (0, False) and not is_fraction:
        return either(_all_with_exponents(digits))
    least = None if low[0] == 0 else low
    last = -1 if is_fraction else MAX_EXPONENT
    return either(_normalized(least, greatest, _MIN_EXPONENT, last))


def _all_with_exponents(digits: int) -> Iterator[Regex]:
    """All numerals with up to `digits` digits before the point and a small exponent, and all
    normalized ones."""
    mantissa = concat(
        whole_numbers(0, 10 ** min(digits, _LONG) - 1), fraction_part(None, None, False)
    )
    yield concat(mantissa, _exponents(-99, 99))
    yield from _normalized(None, None, _MIN_EXPONENT, -100)
    yield from _normalized(None, _GREATEST_DOUBLE, 100, MAX_EXPONENT)


def _normalized(low: Bound | None, high: Bound | None, first: int, last: int) -> Iterator[Regex]:
    """Numerals with a mantissa from 1 to below 10 and an exponent from `first` to `last`."""
    ten, one = (Decimal(10), True), (Decimal(1), False)
    at_low = first - 1 if low is None else low[0].adjusted()
    at_high = last + 1 if high is None else (first - 1 if high[0] == 0 else high[0].adjusted())
    least = None if low is None else (low[0].scaleb(-at_low, _EXACT), low[1])
    greatest = None if high is None or high[0] == 0 else (high[0].scaleb(-at_high, _EXACT), high[1])
    if at_low == at_high:
        if first <= at_low <= last and least is not None and greatest is not None:
            yield concat(decimal_numerals(least, greatest, False), _exponents(at_low, at_low))
        return
    if least is not None and first <= at_low <= last:
        yield concat(decimal_numerals(least, ten, False), _exponents(at_low, at_low))
    yield concat(
        decimal_numerals(one, ten, False),
        _exponents(max(first, at_low + 1), min(last, at_high - 1)),
    )
    if greatest is not None and first <= at_high <= last:
        yield concat(decimal_numerals(one, greatest, False), _exponents(at_high, at_high))


@lru_cache(maxsize=1024)
def _exponents(first: int, last: int) -> Regex:
    """The exponents from `first` to `last`, with up to two leading zeros."""
    if first > last:
        return NOTHING
    zeros = Repeat(digit_from(0, 0), 0, 2)
    options = []
    if last >= 0:
        plus = Repeat(literal("+"), 0, 1)
        options.append(concat(plus, zeros, whole_numbers(max(first, 0), last)))
    if first <= 0:
        options.append(concat(literal("-"), zeros, whole_numbers(max(0, -last), -first)))
    return concat(Chars(exactly((0x45, 0x45), (0x65, 0x65))), either(options))
