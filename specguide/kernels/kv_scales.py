"""Owns KVScales: the scales of a float8 KV cache, and how keys and values are rounded with them."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class KVScales(NamedTuple):
    """The scales of a layer's cache: its keys are `key` times the cached numbers, its values
    `value` times them."""

    key: float = 1.0
    value: float = 1.0


UNSCALED = KVScales()
"""The scales of a cache that stores keys and values unscaled."""


def cached(numbers: Tensor, scale: float, dtype: torch.dtype) -> Tensor:
    """Keys or values as a cache of `dtype` stores them; in float8 numbers that are too large are
    clamped to the largest, and NaN stays."""
    if dtype != torch.float8_e4m3fn:
        return numbers.to(dtype)
    largest = torch.finfo(dtype).max
    return (numbers.float() * (1 / scale)).clamp_(-largest, largest).to(dtype)
