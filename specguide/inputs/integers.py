"""Owns what counts as an integer or a number: Python's own and those of numpy and torch, but no
truth value."""

from __future__ import annotations

import numbers
import operator
from collections.abc import Iterable
from typing import Any


def is_int(value: Any) -> bool:
    """Whether a value is an int of Python's and no truth value."""
    return isinstance(value, int) and not isinstance(value, bool)


def as_int(value: Any) -> Any:
    """An integer of any library as an int; what is none, as it is. One in an array of some
    dimension is none."""
    if (
        isinstance(value, int)
        or getattr(value, "ndim", 0) != 0
        or "bool" in str(getattr(value, "dtype", ""))
    ):
        return value
    try:
        return operator.index(value)
    except TypeError:
        return value


def as_real(value: Any) -> Any:
    """A real number of any library as an int or a float; what is none, as it is."""
    value = as_int(value)
    is_other = isinstance(value, numbers.Real) and not isinstance(value, int)
    return float(value) if is_other else value


def as_ints(values: Iterable[Any]) -> list[Any]:
    """`as_int` of each, for an array too. Raises TypeError for what has no elements."""
    plain = list(values.tolist() if hasattr(values, "tolist") else values)
    return plain if set(map(type, plain)) <= {int} else [as_int(value) for value in plain]
