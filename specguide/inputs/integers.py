"""Owns what counts as an integer or a real number: those of Python, numpy and torch, but never a
bool."""

from __future__ import annotations

import numbers
import operator
from collections.abc import Iterable
from typing import Any


def is_int(value: Any) -> bool:
    """Whether a value is a Python int, and not a bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def as_int(value: Any) -> Any:
    """An integer of any library as an int; any other value unchanged. Only a 0-dimensional array
    counts as an integer."""
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
    """A real number of any library as an int or a float; any other value unchanged."""
    value = as_int(value)
    is_other = isinstance(value, numbers.Real) and not isinstance(value, int)
    return float(value) if is_other else value


def as_ints(values: Iterable[Any]) -> list[Any]:
    """`as_int` of each element, also of an array. Raises TypeError for a value without elements."""
    plain = list(values.tolist() if hasattr(values, "tolist") else values)
    return plain if set(map(type, plain)) <= {int} else [as_int(value) for value in plain]
