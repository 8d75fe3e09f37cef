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
from specguide.kernels.triton.device import await_results, num_multiprocessors, overlap

_FEW_ROWS = 64
_BLOCK_IN = 128
_BLOCK_OUT = 128
_BLOCK_RANK = 64
_MOST_PARTS = 16


def add_lora(product: Tensor, x: Tensor, matrices: LoraMatrices, adapter_ids: Tensor) -> None:
    """See kernels.lora.add_lora."""
    x = x if x.stride(1) == 1 else x.contiguous()
    num_rows, num_in = x.shape
    num_adapters, num_maps, rank, _ = matrices.a.shape
    num_inner = num_maps * rank
    block_rows = 16 if num_rows <= _FEW_ROWS else 64
    num_tiles = triton.cdiv(num_rows, block_rows)
    block_inner = min(_BLOCK_RANK, triton.next_power_of_2(num_inner))
    num_blocks = triton.cdiv(num_inner, block_inner)
    num_parts = _num_parts(num_in, num_tiles * num_blocks, x.device)
    inner = torch.empty(num_parts, num_rows, num_inner, dtype=torch.float32, device=x.device)
    common = dict(
        NUM_INNER=num_inner,
        BLOCK_ROWS=block_rows,
        PRECISION="ieee" if x.dtype == torch.float32 else "tf32",
        **overlap(x.device),
    )
    _a_kernel[(num_tiles, num_blocks * num_parts, num_adapters)](
        x,
        x.stride(0),
        matrices.a,
        adapter_ids,
        inner,
        num_rows,
        NUM_IN=num_in,
        NUM_COLUMNS=triton.cdiv(num_in, num_parts * _BLOCK_IN) * _BLOCK_IN,
        BLOCK_IN=_BLOCK_IN,
        BLOCK_INNER=block_inner,
        **common,
    )
    largest = max(stop - start for start, stop in matrices.sections)
    _b_kernel[(num_tiles, triton.cdiv(largest, _BLOCK_OUT), num_adapters * num_maps)](
        inner,
        matrices.b,
        adapter_ids,
        product,
        num_rows,
        matrices.bounds,
        RANK=rank,
        NUM_MAPS=num_maps,
        NUM_OUT=product.shape[1],
        NUM_PARTS=num_parts,
        BLOCK_OUT=_BLOCK_OUT,
        BLOCK_RANK=min(_BLOCK_RANK, rank),
        **common,
    )


def _num_parts(num_in: int, num_blocks: int, device: torch.device) -> int:
    """Into how many parts the input features are cut: so many that all multiprocessors have a
    program."""
    wanted = triton.cdiv(num_multiprocessors(device), num_blocks)
    return min(wanted, _MOST_PARTS, triton.cdiv(num_in, 2 * _BLOCK_IN))


@triton.jit
def _mine(adapter_ids, adapter, row, num_rows):
    """Which rows of a tile have an adapter."""
    return tl.load(adapter_ids + row, mask=row < num_rows, other=0) == adapter + 1


@triton.jit(do_not_specialize=["num_rows"])
def _a_kernel(
    x,
    x_stride,
    a,
    adapter_ids,
    inner,
    num_rows,
    NUM_IN: tl.constexpr,
    NUM_INNER: tl.constexpr,
    NUM_COLUMNS: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_IN: tl.constexpr,
    BLOCK_INNER: tl.constexpr,
    PRECISION: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """One part of a · x, for the rows of a tile that have one adapter."""
    await_results(OVERLAP)
    adapter = tl.program_id(2)
    row = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    is_mine = _mine(adapter_ids, adapter, row, num_rows)
    if tl.max(is_mine.to(tl.int32), 0) == 0:
        return
    num_blocks: tl.constexpr = (NUM_INNER + BLOCK_INNER - 1) // BLOCK_INNER
    part, block = tl.program_id(1) // num_blocks, tl.program_id(1) % num_blocks
    place = block * BLOCK_INNER + tl.arange(0, BLOCK_INNER)
    is_inner = place < NUM_INNER
    a_row = a + (adapter.to(tl.int64) * NUM_INNER + place) * NUM_IN
    x_row = x + row.to(tl.int64) * x_stride
    sums = tl.zeros((BLOCK_ROWS, BLOCK_INNER), tl.float32)
    for first in range(0, NUM_COLUMNS, BLOCK_IN):
        column = part * NUM_COLUMNS + first + tl.arange(0, BLOCK_IN)
        is_in = column < NUM_IN
        x_tile = tl.load(
            x_row[:, None] + column[None, :], mask=is_mine[:, None] & is_in[None, :], other=0.0
        )
        a_tile = tl.load(
            a_row[None, :] + column[:, None], mask=is_inner[None, :] & is_in[:, None], other=0.0
        )
        sums = tl.dot(x_tile, a_tile, sums, input_precision=PRECISION)
    target = inner + (part.to(tl.int64) * num_rows + row) * NUM_INNER
    mask = is_mine[:, None] & is_inner[None, :]
    tl.store(target[:, None] + place[None, :], sums, mask=mask)


@triton.jit(do_not_specialize=["num_rows"])
def _b_kernel(
    inner,
    b,
    adapter_ids,
    product,
    num_rows,
    bounds,
    RANK: tl.constexpr,
    NUM_MAPS: tl.constexpr,
    NUM_OUT: tl.constexpr,
    NUM_INNER: tl.constexpr,
    NUM_PARTS: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    BLOCK_OUT: tl.constexpr,
    BLOCK_RANK: tl.constexpr,
    PRECISION: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Add b · (a · x) to output features of one map, for the rows of a tile that have one
    adapter."""
    await_results(OVERLAP)
    adapter, of_map = tl.program_id(2) // NUM_MAPS, tl.program_id(2) % NUM_MAPS
    row = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    is_mine = _mine(adapter_ids, adapter, row, num_rows)
    start, stop = 0, 0
    for index in tl.static_range(NUM_MAPS):
        start = tl.where(of_map == index, bounds[index], start)
        stop = tl.where(of_map == index, bounds[index + 1], stop)
    first_out = start + tl.program_id(1) * BLOCK_OUT
    if (first_out >= stop) | (tl.max(is_mine.to(tl.int32), 0) == 0):
        return
    output = first_out + tl.arange(0, BLOCK_OUT)
    mask = is_mine[:, None] & (output < stop)[None, :]
    target = product + row.to(tl.int64)[:, None] * NUM_OUT + output[None, :]
    before = tl.load(target, mask=mask, other=0.0)
    b_row = b + (adapter.to(tl.int64) * NUM_OUT + output) * RANK
    sums = tl.zeros((BLOCK_ROWS, BLOCK_OUT), tl.float32)
    for first in tl.static_range(0, RANK, BLOCK_RANK):
        place = first + tl.arange(0, BLOCK_RANK)
        source = inner + row.to(tl.int64)[:, None] * NUM_INNER + of_map * RANK + place[None, :]
        middle = tl.zeros((BLOCK_ROWS, BLOCK_RANK), tl.float32)
        for _ in tl.range(0, NUM_PARTS, loop_unroll_factor=4):
            middle += tl.load(source, mask=is_mine[:, None], other=0.0)
            source += num_rows * NUM_INNER
        b_tile = tl.load(b_row[None, :] + place[:, None], mask=(output < stop)[None, :], other=0.0)
        sums = tl.dot(middle.to(b_tile.dtype), b_tile, sums, input_precision=PRECISION)
    tl.store(target, (before.to(tl.float32) + sums).to(before.dtype), mask=mask)
