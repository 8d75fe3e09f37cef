"""Owns apply_bitmask in Triton, and the form in which kernels take bitmask rows."""

# mypy: allow-untyped-defs

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from specguide.kernels.bitmask_rows import BitmaskRows


@triton.jit
def _load_allowed(words, column, end, LANES: tl.constexpr):
    """One bit for each token of the groups that begin at the columns, lowest bit first; all ones
    past the end."""
    word = tl.load(words + (column >> 5), mask=column < end, other=-1)
    return (word >> (column & 31)) & ((1 << LANES) - 1)


@triton.jit
def _apply_kernel(
    logits,
    bitmask,
    guided,
    row_ids,
    vocab_size,
    logits_stride,
    bitmask_stride,
    row_ids_stride,
    share,
    GROUPS: tl.constexpr,
    LANES: tl.constexpr,
    MERGES: tl.constexpr,
):
    """Mask `share` columns of one row, in tiles [lanes, groups]: a group is what a thread stores at
    once."""
    row = tl.program_id(1).to(tl.int64)  # neighbouring programs write neighbouring memory
    mask_row = tl.load(row_ids + row * row_ids_stride).to(tl.int64)
    words, logits = bitmask + mask_row * bitmask_stride, logits + row * logits_stride
    begin = tl.program_id(0) * share
    end = tl.minimum(begin + share, vocab_size)
    group, lane = tl.arange(0, GROUPS)[None, :] * LANES, tl.arange(0, LANES)[:, None]
    step, full = GROUPS * LANES, (1 << LANES) - 1
    nothing = tl.full((LANES, GROUPS), float("-inf"), tl.float32).to(logits.dtype.element_ty)
    # Loaded before it is known whether it is needed.
    allowed = _load_allowed(words, begin + group, end, LANES)
    if tl.load(guided + mask_row) != 0:
        for start in range(begin, end, step):
            column = start + group
            next_allowed = _load_allowed(words, column + step, end, LANES)
            sink, in_vocab = logits + (column + lane), column + lane < end
            is_allowed = (allowed >> lane) & 1 != 0
            if MERGES:
                is_mixed = in_vocab & (allowed != 0) & (allowed != full)
                values = tl.load(sink, mask=is_mixed, other=float("-inf"))
                values = tl.where(is_allowed, values, nothing)
                tl.store(sink, values, mask=in_vocab & (allowed != full))
            else:
                tl.store(sink, nothing, mask=in_vocab & (allowed == 0))
                tl.store(sink, nothing, mask=in_vocab & (allowed != 0) & (is_allowed == 0))
            allowed = next_allowed


class RowArguments(NamedTuple):
    """Rows in the form that kernels take; without rows every field is None or 0, and no kernel
    reads any."""

    bitmask: Tensor | None = None
    guided: Tensor | None = None
    ids: Tensor | None = None
    num_words: int = 0
    bitmask_stride: int = 0
    ids_stride: int = 0

    @classmethod
    def of(cls, rows: BitmaskRows | None) -> RowArguments:
        if rows is None:
            return cls()
        bitmask, guided, ids = rows
        strides = bitmask.stride(0), ids.stride(0)
        return cls(bitmask, guided.view(torch.uint8), ids, bitmask.shape[1], *strides)


@dataclass(frozen=True)
class Launch:
    """The shape of a launch: columns per tile, tiles per program, warps per program; whether groups
    with both allowed and forbidden tokens are merged with what is there."""

    tile: int
    num_tiles: int
    num_warps: int
    merges: bool


def apply_bitmask(logits: Tensor, rows: BitmaskRows) -> None:
    """See reference.apply_bitmask."""
    num_rows, vocab_size = logits.shape
    launch = choose_launch(num_rows, logits.element_size())
    lanes = 16 // logits.element_size()
    share = launch.tile * launch.num_tiles
    _apply_kernel[(triton.cdiv(vocab_size, share), num_rows)](
        logits,
        rows.bitmask,
        rows.guided.view(torch.uint8),
        rows.ids,
        vocab_size,
        logits.stride(0),
        rows.bitmask.stride(0),
        rows.ids.stride(0),
        share,
        GROUPS=launch.tile // lanes,
        LANES=lanes,
        MERGES=launch.merges,
        num_warps=launch.num_warps,
    )


def choose_launch(num_rows: int, element_size: int) -> Launch:
    """The launch for logits of this size, the fastest one on an H200. Few rows are spread over many
    programs; with many rows a program takes several tiles. Merging groups costs a load and saves
    stores, of which there are more if elements are small."""
    if element_size == 2:
        return Launch(
            tile=2048, num_tiles=max(1, min(num_rows // 128, 4)), num_warps=4, merges=True
        )
    if num_rows < 32:
        return Launch(tile=1024, num_tiles=1, num_warps=2, merges=False)
    return Launch(tile=1024, num_tiles=4, num_warps=4, merges=True)
