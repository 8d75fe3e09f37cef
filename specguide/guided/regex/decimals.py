"""Owns trees of the decimal numerals between two bounds, without signs. They are built digit by
digit, so nothing is rounded."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache

from specguide.guided.regex.charset import exactly
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

MAX_DIGITS = 308
"""Numbers with at most this many digits before the point are certainly in a double's range."""
_GREATEST = 10**MAX_DIGITS - 1

Bound = tuple[Decimal, bool]
"""A number, and whether the bound excludes it."""


@lru_cache(maxsize=100)
def digit_from(low: int, high: int) -> Regex:
    """One digit from `low` to `high`."""
    return Chars(exactly((0x30 + low, 0x30 + high)))


_ANY_DIGITS = Repeat(digit_from(0, 9), 0, None)
_ZEROS = Repeat(digit_from(0, 0), 0, None)
_NOT_ZERO = concat(_ZEROS, digit_from(1, 9), _ANY_DIGITS)
_POINT = literal(".")


@lru_cache(maxsize=1024)
def whole_numbers(first: int, last: int) -> Regex:
    """The integers from `first` ≥ 0 to `last`, with at most 308 digits."""
    last = min(last, _GREATEST)
    if first > last:
        return NOTHING
    zero: list[Regex] = [literal("0")] if first == 0 else []
    return either([*zero, *_without_zero(max(first, 1), last)])


def _without_zero(first: int, last: int) -> Iterator[Regex]:
    """The integers from `first` ≥ 1 to `last`, by their lengths; none where `first` is greater."""
    shortest, longest = len(str(first)), len(str(last))
    if shortest == longest:
        if first <= last:
            yield from _same_length(str(first), str(last))
        return
    if str(first).strip("0") != "1":
        yield from _same_length(str(first), "9" * shortest)
        shortest += 1
    if str(last).strip("9"):
        yield from _same_length("1" + "0" * (longest - 1), str(last))
        longest -= 1
    if shortest <= longest:
        yield _of_lengths(shortest, longest)


def _of_lengths(shortest: int, longest: int) -> Regex:
    return concat(digit_from(1, 9), Repeat(digit_from(0, 9), shortest - 1, longest - 1))


def _same_length(low: str, high: str) -> Iterator[Regex]:
    """Strings of digits from `low` to `high`, which have the same length."""
    shared = next(
        (i for i, (one, other) in enumerate(zip(low, high, strict=True)) if one != other), len(low)
    )
    if shared == len(low):
        yield _run(low)
        return
    is_round = not low[shared + 1 :].strip("0"), not high[shared + 1 :].strip("9")
    first, last = int(low[shared]) + (not is_round[0]), int(high[shared]) - (not is_round[1])
    end = len(low) - 1
    if first <= last:
        yield concat(_run(low[:shared]), digit_from(first, last), _times(end - shared))
    for i in range(shared + 1, end + 1):
        first, last = int(low[i]) + (i < end), int(high[i]) - (i < end)
        if first <= 9 and not is_round[0]:
            yield concat(_run(low[:i]), digit_from(first, 9), _times(end - i))
        if last >= 0 and not is_round[1]:
            yield concat(_run(high[:i]), digit_from(0, last), _times(end - i))


def _times(count: int) -> Regex:
    return Repeat(digit_from(0, 9), count, count) if count else EMPTY


def _run(digits: str) -> Regex:
    """The digits themselves; four leading zeros or more as a repetition."""
    zeros = len(digits) - len(digits.lstrip("0"))
    return (
        literal(digits)
        if zeros < 4
        else concat(Repeat(digit_from(0, 0), zeros, zeros), literal(digits[zeros:]))
    )


def decimal_numerals(low: Bound, high: Bound, is_fraction: bool) -> Regex:
    """The numerals without exponents from `low` to `high`. is_fraction: leave out integers"""
    low_whole, low_part = _parts(low[0])
    high_whole, high_part = _parts(high[0])
    at_low, at_high = (low_part, low[1]), (high_part, high[1])
    at_first, at_last = (whole_numbers(number, number) for number in (low_whole, high_whole))
    if high_whole == low_whole:
        return concat(at_first, fraction_part(at_low, at_high, is_fraction))
    is_whole = at_low == ("", False)  # with no further bound on its fractions
    between = whole_numbers(low_whole + (not is_whole), high_whole - 1)
    return either(
        [
            NOTHING if is_whole else concat(at_first, fraction_part(at_low, None, is_fraction)),
            concat(between, fraction_part(None, None, is_fraction)),
            concat(at_last, fraction_part(None, at_high, is_fraction)),
        ]
    )


def _parts(number: Decimal) -> tuple[int, str]:
    """The part before the point, and the digits behind it without trailing zeros."""
    whole, _, part = f"{number:f}".partition(".")
    return int(whole), part.rstrip("0")


End = tuple[str, bool] | None
"""The least or the greatest digits behind the point, and whether they are excluded."""


def fraction_part(low: End, high: End, is_fraction: bool) -> Regex:
    """A point and digits between two ends, or nothing. is_fraction: not all digits are zeros"""
    is_least, is_greatest = low is None or low == ("", False), high == ("", True)
    bare = [EMPTY] if is_least and not is_greatest and not is_fraction else []
    return either([*bare, concat(_POINT, either(_digits_between(low, high, is_fraction)))])


def _digits_between(low: End, high: End, is_fraction: bool) -> Iterator[Regex]:
    """The digits behind the point in `fraction_part`, as alternatives with different beginnings.
    Digits that are still equal to those of an end lead to longer beginnings."""
    todo = [("", low, high)]
    for beginning, least, greatest in todo:
        least = None if least == ("", False) else least
        needed = is_fraction and not beginning.strip("0")
        if greatest is not None and greatest[0] == "":
            if least is None and not greatest[1] and not needed:
                yield concat(_run(beginning), Repeat(digit_from(0, 0), 0 if beginning else 1, None))
        elif greatest is None and (least is None or least[0] == ""):
            some = Repeat(digit_from(0, 9), 0 if beginning else 1, None)
            yield concat(_run(beginning), _NOT_ZERO if needed or least is not None else some)
        else:
            if least is None and beginning and not needed:
                yield _run(beginning)
            todo += [
                (beginning + str(digit), after_least, after_greatest)
                for digit, after_least, after_greatest in _next(least, greatest)
                if after_least is not None or after_greatest is not None
            ]
            yield from _free(beginning, least, greatest, needed)


def _next(least: End, greatest: End) -> Iterator[tuple[int, End, End]]:
    """Each digit that may come next, with the ends for the digits behind it; None for an end that
    no longer matters."""
    first = int(least[0][:1] or "0") if least is not None else 0
    last = int(greatest[0][0]) if greatest is not None else 9
    for digit in range(first, last + 1):
        yield (
            digit,
            (least[0][1:], least[1]) if least is not None and digit == first else None,
            (greatest[0][1:], greatest[1]) if greatest is not None and digit == last else None,
        )


def _free(beginning: str, least: End, greatest: End, needed: bool) -> Iterator[Regex]:
    """The alternatives that continue with a digit behind which neither end matters."""
    digits = [digit for digit, *ends in _next(least, greatest) if ends == [None, None]]
    if needed and digits and digits[0] == 0:
        yield concat(_run(beginning), digit_from(0, 0), _NOT_ZERO)
        digits = digits[1:]
    if digits:
        yield concat(_run(beginning), digit_from(digits[0], digits[-1]), _ANY_DIGITS)
