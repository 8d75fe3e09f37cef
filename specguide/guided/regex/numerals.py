"""Owns the JSON numerals between two bounds as trees: exact for decimals of any length, and within
a double's range.

Numerals without an exponent are told exactly. Of those with one there are the normalized ones,
1.5e-07, of which an exponent's size decides. All comparing is done on decimal digits, so nothing is
rounded. Source: RFC 8259, section 6.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import lru_cache

from specguide.guided.regex.charset import exactly
from specguide.guided.regex.parse import (
    EMPTY,
    NOTHING,
    Chars,
    Concat,
    Either,
    Node,
    Repeat,
    literal,
)

MAX_DIGITS = 308
"""Numbers with no more digits before the point are doubles without a doubt."""
MAX_EXPONENT = 308
"""Of normalized numbers; of those with this one, the greatest double is the last."""
_MIN_EXPONENT = -307
_GREATEST = 10**MAX_DIGITS - 1
_GREATEST_DOUBLE = Decimal(repr(sys.float_info.max)), False
_LONG = 200
_EXACT = Context(prec=10_000, Emin=-100_000, Emax=100_000)

Bound = tuple[Decimal, bool]
"""A number, and whether it is itself left out."""


@dataclass(frozen=True)
class Interval:
    """Numbers between two bounds, None for none.

    kind:   "number", "integer", or "fraction" for what is no integer
    digits: most digits before the point, where a bound does not ask for more; larger numbers have
            exponents
    """

    low: Bound | None = None
    high: Bound | None = None
    kind: str = "number"
    digits: int = MAX_DIGITS


@lru_cache(maxsize=1024)
def numerals(interval: Interval) -> Node:
    """A tree of the numerals of an interval's numbers; NOTHING where there are none."""
    low, high, zero = interval.low, interval.high, (Decimal(0), False)
    positive = _magnitudes(_higher(low, zero), high, interval)
    negative = _magnitudes(_higher(_negated(high), zero), _negated(low), interval)
    return either([positive, concat(literal("-"), negative)])


def either(nodes: Iterable[Node]) -> Node:
    """Any one of the nodes."""
    kept = [
        part for node in nodes for part in (node.items if isinstance(node, Either) else (node,))
    ]
    return kept[0] if len(kept) == 1 else Either(tuple(kept))


def concat(*nodes: Node) -> Node:
    """The nodes one after the other; NOTHING where one of them is."""
    if NOTHING in nodes:
        return NOTHING
    items = [
        part for node in nodes for part in (node.items if isinstance(node, Concat) else (node,))
    ]
    return items[0] if len(items) == 1 else Concat(tuple(items))


def _negated(bound: Bound | None) -> Bound | None:
    return None if bound is None else (bound[0].copy_negate(), bound[1])


def _higher(bound: Bound | None, other: Bound) -> Bound:
    return other if bound is None or bound < other else bound


@lru_cache(maxsize=100)
def _digits(low: int, high: int) -> Node:
    return Chars(exactly((0x30 + low, 0x30 + high)))


_ANY_DIGITS = Repeat(_digits(0, 9), 0, None)
_ZEROS = Repeat(_digits(0, 0), 0, None)
_NOT_ZERO = concat(_ZEROS, _digits(1, 9), _ANY_DIGITS)
_POINT = literal(".")


def _magnitudes(low: Bound, high: Bound | None, interval: Interval) -> Node:
    """Numerals without a sign of the numbers from `low`, which is not negative."""
    if high is not None and (high[0] < low[0] or (high[0] == low[0] and (low[1] or high[1]))):
        return NOTHING
    longest = (Decimal(10 ** max(interval.digits, min(low[0].adjusted() + 2, MAX_DIGITS))), True)
    if interval.kind == "integer":
        return _integers(low, high or longest)
    is_fraction = interval.kind == "fraction"
    most = longest if high is None else min(high, longest)
    decimals = _decimals(low, most, is_fraction) if low[0] < most[0] or most == high else NOTHING
    return either([decimals, _with_exponents(low, high, is_fraction, interval.digits)])


def _integers(low: Bound, high: Bound) -> Node:
    first = int(low[0].to_integral_value("ROUND_CEILING", _EXACT))
    first += low[1] and first == low[0]
    last = int(high[0].to_integral_value("ROUND_FLOOR", _EXACT))
    last -= high[1] and last == high[0]
    return _whole(first, last)


@lru_cache(maxsize=1024)
def _whole(first: int, last: int) -> Node:
    """The integers from `first` ≥ 0 to `last`, of 308 digits at most."""
    last = min(last, _GREATEST)
    if first > last:
        return NOTHING
    options: list[Node] = [literal("0")] if first == 0 else []
    first = max(first, 1)
    shortest, longest = len(str(first)), len(str(last))
    if shortest == longest:
        options += _same_length(str(first), str(last)) if first <= last else ()
        return either(options)
    if str(first).strip("0") != "1":
        options += _same_length(str(first), "9" * shortest)
        shortest += 1
    if str(last).strip("9"):
        options += _same_length("1" + "0" * (longest - 1), str(last))
        longest -= 1
    if shortest <= longest:
        options.append(_of_lengths(shortest, longest))
    return either(options)


def _of_lengths(shortest: int, longest: int) -> Node:
    return concat(_digits(1, 9), Repeat(_digits(0, 9), shortest - 1, longest - 1))


def _same_length(low: str, high: str) -> Iterator[Node]:
    """Strings of as many digits from `low` to `high`."""
    shared = next(
        (i for i, (one, other) in enumerate(zip(low, high, strict=True)) if one != other), len(low)
    )
    if shared == len(low):
        yield _run(low)
        return
    rest = len(low) - shared - 1
    if int(low[shared]) + 1 < int(high[shared]):
        yield concat(
            _run(low[:shared]), _digits(int(low[shared]) + 1, int(high[shared]) - 1), _times(rest)
        )
    for i in range(shared + 1, len(low)):
        if low[i] < "9":
            yield concat(_run(low[:i]), _digits(int(low[i]) + 1, 9), _times(len(low) - i - 1))
        if high[i] > "0":
            yield concat(_run(high[:i]), _digits(0, int(high[i]) - 1), _times(len(low) - i - 1))
    yield from (_run(low), _run(high))


def _times(count: int) -> Node:
    return Repeat(_digits(0, 9), count, count) if count else EMPTY


def _run(digits: str) -> Node:
    """The digits themselves; the zeros they begin with as a repetition."""
    zeros = len(digits) - len(digits.lstrip("0"))
    return (
        literal(digits)
        if zeros < 4
        else concat(Repeat(_digits(0, 0), zeros, zeros), literal(digits[zeros:]))
    )


def _decimals(low: Bound, high: Bound, is_fraction: bool) -> Node:
    """Numerals without an exponent."""
    low_whole, low_part = _parts(low[0])
    high_whole, high_part = _parts(high[0])
    at_low, at_high = (low_part, low[1]), (high_part, high[1])
    if high_whole == low_whole:
        return concat(_whole(low_whole, low_whole), _fractions(at_low, at_high, is_fraction))
    return either(
        [
            concat(_whole(low_whole, low_whole), _fractions(at_low, None, is_fraction)),
            concat(_whole(low_whole + 1, high_whole - 1), _fractions(None, None, is_fraction)),
            concat(_whole(high_whole, high_whole), _fractions(None, at_high, is_fraction)),
        ]
    )


def _parts(number: Decimal) -> tuple[int, str]:
    """What is before the point, and the digits behind it without zeros at their end."""
    whole, _, part = f"{number:f}".partition(".")
    return int(whole), part.rstrip("0")


End = tuple[str, bool] | None
"""Digits behind the point that are the least or the greatest, and whether they are themselves left
out."""


def _fractions(low: End, high: End, is_fraction: bool) -> Node:
    """A point and digits between two ends, or nothing. is_fraction: not all of them are zeros"""
    is_least, is_greatest = low is None or low == ("", False), high == ("", True)
    bare = [EMPTY] if is_least and not is_greatest and not is_fraction else []
    return either([*bare, concat(_POINT, either(_digits_between(low, high, is_fraction)))])


def _digits_between(low: End, high: End, is_fraction: bool) -> Iterator[Node]:
    """The same without the point, as texts with a beginning each. Digits that follow an end all the
    way lead on."""
    todo = [("", low, high)]
    for beginning, least, greatest in todo:
        least = None if least == ("", False) else least
        needed = is_fraction and not beginning.strip("0")
        if greatest is not None and greatest[0] == "":
            if least is None and not greatest[1] and not needed:
                yield concat(_run(beginning), Repeat(_digits(0, 0), 0 if beginning else 1, None))
        elif greatest is None and (least is None or least[0] == ""):
            some = Repeat(_digits(0, 9), 0 if beginning else 1, None)
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
    """Each digit that may come, with the ends of what is behind it; None for an end that it has
    left behind."""
    first = int(least[0][:1] or "0") if least is not None else 0
    last = int(greatest[0][0]) if greatest is not None else 9
    for digit in range(first, last + 1):
        yield (
            digit,
            (least[0][1:], least[1]) if least is not None and digit == first else None,
            (greatest[0][1:], greatest[1]) if greatest is not None and digit == last else None,
        )


def _free(beginning: str, least: End, greatest: End, needed: bool) -> Iterator[Node]:
    """What begins with a digit that leaves both ends behind."""
    digits = [digit for digit, *ends in _next(least, greatest) if ends == [None, None]]
    if needed and digits and digits[0] == 0:
        yield concat(_run(beginning), _digits(0, 0), _NOT_ZERO)
        digits = digits[1:]
    if digits:
        yield concat(_run(beginning), _digits(digits[0], digits[-1]), _ANY_DIGITS)


def _with_exponents(low: Bound, high: Bound | None, is_fraction: bool, digits: int) -> Node:
    """Normalized numerals with an exponent; where all positive numbers are meant, others that are
    small enough."""
    greatest = _GREATEST_DOUBLE if high is None else min(high, _GREATEST_DOUBLE)
    if low[0] > greatest[0]:
        return NOTHING
    if high is None and low == (0, False) and not is_fraction:
        mantissa = concat(_whole(0, 10 ** min(digits, _LONG) - 1), _fractions(None, None, False))
        return either(
            [
                concat(mantissa, _exponents(-99, 99)),
                *_normalized(None, None, _MIN_EXPONENT, -100),
                *_normalized(None, greatest, 100, MAX_EXPONENT),
            ]
        )
    return either(
        _normalized(
            None if low[0] == 0 else low,
            greatest,
            _MIN_EXPONENT,
            -1 if is_fraction else MAX_EXPONENT,
        )
    )


def _normalized(low: Bound | None, high: Bound | None, first: int, last: int) -> Iterator[Node]:
    """Numerals of a mantissa from 1 to below 10 and an exponent from `first` to `last`."""
    ten, one = (Decimal(10), True), (Decimal(1), False)
    at_low = first - 1 if low is None else low[0].adjusted()
    at_high = last + 1 if high is None else (first - 1 if high[0] == 0 else high[0].adjusted())
    least = None if low is None else (low[0].scaleb(-at_low, _EXACT), low[1])
    greatest = None if high is None or high[0] == 0 else (high[0].scaleb(-at_high, _EXACT), high[1])
    if at_low == at_high:
        if first <= at_low <= last and least is not None and greatest is not None:
            yield concat(_decimals(least, greatest, False), _exponents(at_low, at_low))
        return
    if least is not None and first <= at_low <= last:
        yield concat(_decimals(least, ten, False), _exponents(at_low, at_low))
    yield concat(
        _decimals(one, ten, False), _exponents(max(first, at_low + 1), min(last, at_high - 1))
    )
    if greatest is not None and first <= at_high <= last:
        yield concat(_decimals(one, greatest, False), _exponents(at_high, at_high))


@lru_cache(maxsize=1024)
def _exponents(first: int, last: int) -> Node:
    """The exponents from `first` to `last`, with up to two zeros before them."""
    zeros = Repeat(_digits(0, 0), 0, 2)
    options = []
    if last >= 0:
        options.append(concat(Repeat(literal("+"), 0, 1), zeros, _whole(max(first, 0), last)))
    if first <= 0:
        options.append(concat(literal("-"), zeros, _whole(max(0, -last), -first)))
    return (
        concat(Chars(exactly((0x45, 0x45), (0x65, 0x65))), either(options))
        if first <= last
        else NOTHING
    )
