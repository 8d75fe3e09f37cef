"""Owns KVScales: what the numbers of a float8 cache stand for, and how they are rounded."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class KVScales(NamedTuple):
    """The scales of a layer's cache: its keys are `key` times the cached numbers, its values
    `value` times."""

    key: float = 1.0
    value: float = 1.0


UNSCALED = KVScales()
"""The scales of a cache that holds keys and values as they are."""


def cached(numbers: Tensor, scale: float, dtype: torch.dtype) -> Tensor:
    """Keys or values as a cache of `dtype` holds them; in float8 what is too large becomes the
    largest, and NaN stays."""
    if dtype != torch.float8_e4m3fn:
        return numbers.to(dtype)
    largest = torch.finfo(dtype).max
    return (numbers.float() * (1 / scale)).clamp_(-largest, largest).to(dtype)
