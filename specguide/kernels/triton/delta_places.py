"""Owns where a program of the delta rule's kernels finds its sequence: tokens, slot, and the places
of its open tokens."""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from specguide.kernels.delta_rule import DeltaPass

UNALIGNED = [
    *("slots", "bounds", "opened", "turns", "stores", "ancestors", "before"),
    *("num_accepted", "accepted", "num_settled", "settled"),
]
"""Arguments that may be parts of larger tensors, so their alignment must not matter."""


class Sequence(NamedTuple):
    """One sequence of a pass: its first row, how many tokens it has, its slot (-1: none), the place
    of its first open token, and how many open tokens it has from before (-1: it begins)."""

    start: Any
    length: Any
    slot: Any
    opened: Any
    num_before: Any


@triton.jit
def sequence_at(slots, bounds, opened, num_before, index):
    """A sequence by its number."""
    start = tl.load(bounds + index).to(tl.int64)
    length = (tl.load(bounds + index + 1) - start).to(tl.int32)
    slot, place = tl.load(slots + index), tl.load(opened + index)
    return Sequence(start, length, slot, place, tl.load(num_before + index))


@triton.jit
def tile_at(bounds, num_sequences, number, TILE: tl.constexpr, BLOCK_SEQUENCES: tl.constexpr):
    """Of the tile with this number, if each sequence is cut into tiles of some tokens: its
    sequence, and its place among that one's tiles. The sequence is `num_sequences` or higher if
    there are fewer tiles."""
    sequence = tl.arange(0, BLOCK_SEQUENCES)
    exists = sequence < num_sequences
    begin = tl.load(bounds + sequence, mask=exists, other=0)
    end = tl.load(bounds + 1 + sequence, mask=exists, other=0)
    num_tiles = (end - begin + TILE - 1) // TILE
    is_before = tl.cumsum(num_tiles, 0) <= number
    own = tl.sum(is_before.to(tl.int32), 0)
    return own, number - tl.sum(tl.where(is_before, num_tiles, 0), 0)


@triton.jit
def store_zeros(output, start, end, step, head, column, sizes, BLOCK: tl.constexpr):
    """Store zeros in some columns of a head's output: in BLOCK rows at each `step` from `start`,
    before `end`."""
    is_column = (column < sizes.value_dim)[None, :]
    for first in range(start.to(tl.int32), end.to(tl.int32), step):
        row = first + tl.arange(0, BLOCK)
        sink = output + ((row.to(tl.int64) * sizes.heads + head) * sizes.value_dim)[:, None]
        zeros = tl.zeros((BLOCK, column.shape[0]), output.dtype.element_ty)
        tl.store(sink + column[None, :], zeros, mask=(row < end)[:, None] & is_column)


def num_tiles(own: DeltaPass, num_tokens: int, tile: int) -> int:
    """No pass of this shape has more tiles."""
    num_sequences = len(own.slots)
    most = num_sequences * triton.cdiv(own.max_len, tile)
    return min(most, triton.cdiv(num_tokens, tile) + num_sequences)


def block_sequences(own: DeltaPass) -> int:
    return max(16, triton.next_power_of_2(len(own.slots)))


def check_contiguous(**tensors: Tensor) -> None:
    """The kernels compute places in the state from its shape."""
    for name, tensor in tensors.items():
        if not tensor.is_contiguous():
            raise ValueError(f"{name} of the delta rule must be contiguous.")
