"""Owns the kernels, and their launches, that add the products of LoRA adapters.

A program handles a tile of rows and one adapter. Where no row of the tile has that adapter, it ends
at once, so adapters that nobody uses cost little. The product with `a` is cut along the input
features, so that a few rows keep many programs busy; the second kernel sums the parts in their
order, and outputs are the same in every run.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from specguide.kernels.lora import LoraMatrices

_FEW_ROWS = 64
_COLUMNS_OF_PART = 1024
_BLOCK_IN = 128
_BLOCK_OUT = 128
_MOST_BLOCK_RANK = 64


def add_lora(product: Tensor, x: Tensor, matrices: LoraMatrices, adapter_ids: Tensor) -> None:
    """See kernels.lora.add_lora."""
    num_rows, num_in = x.shape
    num_adapters, num_maps, rank, _ = matrices.a.shape
    block_rows = 16 if num_rows <= _FEW_ROWS else 64
    num_tiles = triton.cdiv(num_rows, block_rows)
    block_rank = min(_MOST_BLOCK_RANK, rank)
    num_parts = triton.cdiv(num_in, _COLUMNS_OF_PART)
    inner = torch.empty(num_parts, num_rows, num_maps * rank, dtype=torch.float32, device=x.device)
    precision = "ieee" if x.dtype == torch.float32 else "tf32"
    _a_kernel[(num_tiles, num_maps * rank // block_rank * num_parts, num_adapters)](
        x,
        matrices.a,
        adapter_ids,
        inner,
        num_rows,
        NUM_IN=num_in,
        NUM_INNER=num_maps * rank,
        NUM_COLUMNS=_COLUMNS_OF_PART,
        BLOCK_ROWS=block_rows,
        BLOCK_IN=_BLOCK_IN,
        BLOCK_RANK=block_rank,
        PRECISION=precision,
        num_warps=4,
    )
    for place, start in enumerate(matrices.bounds[:-1]):
        num_out = matrices.bounds[place + 1] - start
        _b_kernel[(num_tiles, triton.cdiv(num_out, _BLOCK_OUT), num_adapters)](
            inner[:, :, place * rank :],
            matrices.b[:, start:],
            adapter_ids,
            product[:, start:],
            num_rows,
            num_out,
            RANK=rank,
            NUM_OUT=product.shape[1],
            NUM_INNER=num_maps * rank,
            NUM_PARTS=num_parts,
            BLOCK_ROWS=block_rows,
            BLOCK_OUT=_BLOCK_OUT,
            BLOCK_RANK=block_rank,
            PRECISION=precision,
            num_warps=4,
        )


@triton.jit(do_not_specialize=["num_rows"])
def _a_kernel(
    x,
    a,
    adapter_ids,
    inner,
    num_rows,
    NUM_IN: tl.constexpr,
    NUM_INNER: tl.constexpr,
    NUM_COLUMNS: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_IN: tl.constexpr,
    BLOCK_RANK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """One part of a · x, for the rows of a tile that have one adapter."""
    adapter = tl.program_id(2)
    row = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    is_mine = tl.load(adapter_ids + row, mask=row < num_rows, other=0) == adapter + 1
    if tl.sum(is_mine.to(tl.int32), 0) == 0:
        return
    num_blocks: tl.constexpr = NUM_INNER // BLOCK_RANK
    part, block = tl.program_id(1) // num_blocks, tl.program_id(1) % num_blocks
    inner_place = block * BLOCK_RANK + tl.arange(0, BLOCK_RANK)
    a_row = a + (adapter.to(tl.int64) * NUM_INNER + inner_place) * NUM_IN
    x_row = x + row.to(tl.int64) * NUM_IN
    sums = tl.zeros((BLOCK_ROWS, BLOCK_RANK), tl.float32)
    for first in range(0, NUM_COLUMNS, BLOCK_IN):
        column = part * NUM_COLUMNS + first + tl.arange(0, BLOCK_IN)
        is_there = column < NUM_IN
        x_tile = tl.load(
            x_row[:, None] + column[None, :], mask=is_mine[:, None] & is_there[None, :], other=0.0
        )
        a_tile = tl.load(a_row[None, :] + column[:, None], mask=is_there[:, None], other=0.0)
        sums = tl.dot(x_tile, a_tile, sums, input_precision=PRECISION)
    target = inner + (part.to(tl.int64) * num_rows + row) * NUM_INNER
    tl.store(target[:, None] + inner_place[None, :], sums, mask=is_mine[:, None])


@triton.jit(do_not_specialize=["num_rows", "num_out"])
def _b_kernel(
    inner,
    b,
    adapter_ids,
    product,
    num_rows,
    num_out,
    RANK: tl.constexpr,
    NUM_OUT: tl.constexpr,
    NUM_INNER: tl.constexpr,
    NUM_PARTS: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_OUT: tl.constexpr,
    BLOCK_RANK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    """Add b · (a · x) to output features of one map, for the rows of a tile that have one
    adapter."""
    adapter = tl.program_id(2)
    row = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    is_mine = tl.load(adapter_ids + row, mask=row < num_rows, other=0) == adapter + 1
    if tl.sum(is_mine.to(tl.int32), 0) == 0:
        return
    output = tl.program_id(1) * BLOCK_OUT + tl.arange(0, BLOCK_OUT)
    is_there = output < num_out
    b_row = b + (adapter.to(tl.int64) * NUM_OUT + output) * RANK
    sums = tl.zeros((BLOCK_ROWS, BLOCK_OUT), tl.float32)
    for first in range(0, RANK, BLOCK_RANK):
        place = first + tl.arange(0, BLOCK_RANK)
        middle = tl.zeros((BLOCK_ROWS, BLOCK_RANK), tl.float32)
        for part in range(NUM_PARTS):
            source = inner + (part * num_rows + row).to(tl.int64) * NUM_INNER
            middle += tl.load(source[:, None] + place[None, :], mask=is_mine[:, None], other=0.0)
        b_tile = tl.load(b_row[None, :] + place[:, None], mask=is_there[None, :], other=0.0)
        sums = tl.dot(middle.to(b_tile.dtype), b_tile, sums, input_precision=PRECISION)
    place = product + row.to(tl.int64)[:, None] * NUM_OUT + output[None, :]
    mask = is_mine[:, None] & is_there[None, :]
    before = tl.load(place, mask=mask, other=0.0)
    tl.store(place, (before.to(tl.float32) + sums).to(before.dtype), mask=mask)
