"""Owns StateShape, the sizes of what linear attention remembers, and StatePart."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from specguide.kernels.delta_rule import DeltaPass


class StateShape(NamedTuple):
    """What such a model remembers on this rank: number of layers, H heads of values in G groups of
    one key head each, their sizes, and W, the tokens that a layer's convolution reads."""

    num_layers: int
    num_groups: int
    num_heads: int
    key_dim: int
    value_dim: int
    conv_len: int

    @property
    def num_channels(self) -> int:
        """C, the channels of the convolution."""
        return 2 * self.num_groups * self.key_dim + self.num_heads * self.value_dim

    def tensors(self, num_slots: int, num_open: int, dtype: torch.dtype) -> list[_Memory]:
        """Shapes and dtypes of the fields of a DeltaState."""
        heads, channels = self.num_heads, self.num_channels
        opened = num_slots, num_rounds(num_open) * num_open
        return [
            _Memory((num_slots, heads, self.key_dim, self.value_dim), torch.float32),
            _Memory((2, num_slots, self.conv_len - 1, channels), dtype),
            _Memory((2, num_slots, num_open, channels), dtype),
            _Memory((*opened, self.num_groups, self.key_dim), dtype),
            _Memory((*opened, heads, self.value_dim), torch.float32),
            _Memory((*opened, heads), torch.float32),
        ]

    def num_bytes(self, num_slots: int, num_open: int, dtype: torch.dtype) -> int:
        """Memory of all layers, bytes."""
        each = self.tensors(num_slots, num_open, dtype)
        return self.num_layers * sum(it.num_bytes for it in each)


def num_rounds(num_open: int) -> int:
    """How many passes have places of their own for their open tokens; even. One pass of so many
    less one stores the matrix. Of more open tokens settling takes longer than storing."""
    return 4 if num_open == 1 else 2


class _Memory(NamedTuple):
    """The memory of one field of a DeltaState."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def num_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


class StatePart(NamedTuple):
    """The tokens of a pass that are planned together, and how they meet their slots' states."""

    tokens: slice
    own: DeltaPass
