"""Owns the JSON numerals of a number's multiples, for numbers where the last digits decide."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

_MAX_ENDINGS = 125


def multiples(step: Fraction) -> str | None:
    """A regular expression of the multiples' numerals without exponents; None where it would not be
    short."""
    places = num_places(step)
    if places is None:
        return None
    units = int(step * 10**places)
    num_digits = _num_digits(units)
    if num_digits is None or 10**num_digits // units > _MAX_ENDINGS:
        return None
    endings = (
        f"{number:0{num_digits}}" if num_digits else ""
        for number in range(0, 10**num_digits, units)
    )
    return (
        "-?(?:"
        + "|".join(part for ending in endings for part in _with_ending(ending, places))
        + ")"
    )


def num_places(step: Fraction) -> int | None:
    """Number of digits behind the point that write a number exactly; None where no number
    suffices."""
    return _num_digits(step.denominator)


def _num_digits(divisor: int) -> int | None:
    """How many last digits of a number decide whether it is a multiple; None where they never
    do."""
    rest, num_fives, num_twos = divisor, 0, 0
    while rest and rest % 5 == 0:
        rest, num_fives = rest // 5, num_fives + 1
    while rest and rest % 2 == 0:
        rest, num_twos = rest // 2, num_twos + 1
    return max(num_fives, num_twos) if rest == 1 else None


def _with_ending(ending: str, places: int) -> Iterator[str]:
    """Numerals whose digits up to `places` behind the point end with `ending`, and continue with
    zeros."""
    point = max(0, len(ending) - places)
    in_whole, behind_point = ending[:point], ending[point:]
    num_free = places - len(behind_point)
    digits = behind_point.rstrip("0")
    if digits:
        fraction = r"\." + (f"[0-9]{{{num_free}}}" if num_free else "") + digits + "0*"
    else:
        fraction = rf"(?:\.[0-9]{{1,{num_free}}}0*)?" if num_free else r"(?:\.0+)?"
    yield f"[0-9]*{in_whole}{fraction}" if in_whole else f"[0-9]+{fraction}"
    if in_whole.startswith("0"):
        yield f"{int(in_whole)}{fraction}"
