"""Owns the reading of whole numbers on the command line: digits, or digits with a letter for the
size, as in vLLM."""

from __future__ import annotations

import re
from fractions import Fraction

import typer

_SIZES = {"k": 1, "m": 2, "g": 3, "t": 4}
_WITH_SIZE = re.compile(r"(\d+(?:\.\d+)?)([kmgt])", re.ASCII | re.IGNORECASE)


def whole_number(written: str | int) -> int:
    """A whole number from its text, or a default as it is: 8k is 8000, 8K is 8192, and m, g and t
    are the next sizes. Raises typer.BadParameter."""
    if isinstance(written, int):
        return written
    found = _WITH_SIZE.fullmatch(written)
    try:
        number = Fraction(found[1]) * _size(found[2]) if found else Fraction(int(written))
    except ValueError:
        number = Fraction(1, 2)
    if number.denominator != 1:
        raise typer.BadParameter(
            f"{written!r} is not a whole number such as 8192, 8k (8000) or 8K (8192)"
        )
    return int(number)


def length_or_auto(written: str | int) -> int:
    """See `whole_number`; -1 for auto: the length is to be found. Raises typer.BadParameter."""
    return -1 if written == "auto" else whole_number(written)


def _size(letter: str) -> int:
    return (1000 if letter.islower() else 1024) ** _SIZES[letter.lower()]
