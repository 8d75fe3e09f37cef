"""Owns the products of float8 rows with float8 weights on a GPU: torch's where the rows are many
and the weight has no blocks, else Triton's.

Triton's kernel is that of `linear`: a program has its part of the weight brought to the L2 cache
while the kernels before it still run, and of few programs several share a sum. It sums 128 products
at a time in the tensor core, which keeps too few digits for more, and adds these up in float32.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import cuda

from specguide.kernels import float8
from specguide.kernels.float8 import BLOCK, Float8Rows
from specguide.kernels.triton.device import num_multiprocessors, overlap, prefetch

_MOST_ROWS = {(9, 0): 64}
"""By compute capability: up to so many rows Triton's kernel is the faster one. `python -m
benchmarks.float8_products` says it for the GPU that it runs on."""
_OTHER_MOST_ROWS = 64
_LARGEST_TILE = 128
_PREFETCHED = 256
"""Columns of each row of a weight that are brought to the cache before the kernel may begin."""


@dataclass(frozen=True)
class Tile:
    """What a program computes, and how.

    rows, outputs: of the product
    columns:       of the weight, a step; 128 where it has blocks
    num_splits:    programs over which the sum of one feature is spread
    """

    rows: int
    outputs: int
    columns: int
    num_splits: int
    num_warps: int
    num_stages: int


@triton.jit
def _prefetch(weight, PREFETCHED: tl.constexpr, row, row_len):
    """Ask for the first columns of some rows, a line of 128 columns each, to be in the L2 cache
    soon."""
    lines = (
        weight
        + row[:, None].to(tl.int64) * row_len
        + tl.arange(0, PREFETCHED // 128)[None, :] * 128
    )
    prefetch(lines)


class _Factors(NamedTuple):
    """Pointers to the rows and the weight, each with its scales."""

    x: Any
    x_scale: Any
    weight: Any
    scale: Any


@triton.jit
def _products(
    factors,
    row,
    is_row,
    source,
    begin,
    ROW_LEN: tl.constexpr,
    SHARE: tl.constexpr,
    COLUMNS: tl.constexpr,
    HAS_BLOCKS: tl.constexpr,
):
    """Sums over SHARE columns from `begin` on, float32 [features, rows]; scaled where the weight
    has blocks."""
    NUM_BLOCKS: tl.constexpr = ROW_LEN // 128
    total = tl.zeros((source.shape[0], row.shape[0]), tl.float32)
    for start in range(0, SHARE, COLUMNS):
        column = begin + start + tl.arange(0, COLUMNS)
        inputs_at = factors.x + row[None, :] * ROW_LEN + column[:, None]
        inputs = tl.load(inputs_at, mask=is_row[None, :], other=0.0)
        weights_at = factors.weight + source[:, None].to(tl.int64) * ROW_LEN + column[None, :]
        weights = tl.load(weights_at)
        if HAS_BLOCKS:
            block = (begin + start) // 128
            x_scales = tl.load(factors.x_scale + row * NUM_BLOCKS + block, mask=is_row, other=0)
            scales = tl.load(factors.scale + (source // 128) * NUM_BLOCKS + block)
            total += tl.dot(weights, inputs) * (scales[:, None] * x_scales[None, :])
        else:
            total = tl.dot(weights, inputs, total, max_num_imprecise_acc=128)
    return total


@triton.jit(do_not_specialize=["num_rows"])
def _linear_kernel(
    factors,
    bias,
    output,
    num_rows,
    num_outputs,
    ROW_LEN: tl.constexpr,
    HAS_BLOCKS: tl.constexpr,
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    COLUMNS: tl.constexpr,
    NUM_SPLITS: tl.constexpr,
    PREFETCHED: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Some features of some rows."""
    feature = tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    exists = feature < num_outputs
    source = tl.where(exists, feature, 0)
    split = tl.program_id(1)
    SHARE: tl.constexpr = ROW_LEN // NUM_SPLITS
    if OVERLAP:
        cuda.gdc_launch_dependents()
        _prefetch(factors.weight + split * SHARE, PREFETCHED, source, ROW_LEN)
        cuda.gdc_wait()
    row = (tl.program_id(2) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    is_row = row < num_rows
    total = _products(
        factors, row, is_row, source, split * SHARE, ROW_LEN, SHARE, COLUMNS, HAS_BLOCKS
    )
    if not HAS_BLOCKS:
        x_scales = tl.load(factors.x_scale + row, mask=is_row, other=0)
        total *= tl.load(factors.scale + source)[:, None] * x_scales[None, :]
    if bias is not None:
        total += tl.where(split == 0, tl.load(bias + source).to(tl.float32), 0.0)[:, None]
    sink = output + (split * num_rows + row[None, :]) * num_outputs + feature[:, None]
    tl.store(sink, total, mask=exists[:, None] & is_row[None, :])


def linear_float8(
    x: Float8Rows, weight: Tensor, scale: Tensor, bias: Tensor | None, dtype: torch.dtype
) -> Tensor:
    """See float8.linear_float8."""
    if _is_for_library(x, weight, scale, dtype):
        return library(x, weight, scale, bias, dtype)
    if not _is_for_triton(weight):
        return float8.linear_float8(x, weight, scale, bias, dtype)
    tile = choose_tile(x, weight, scale, may_split=False)
    return launch(x, weight, scale, bias, dtype, tile)[0]


def linear_float8_parts(
    x: Float8Rows, weight: Tensor, scale: Tensor, bias: Tensor | None, dtype: torch.dtype
) -> Tensor:
    """See float8.linear_float8_parts."""
    if _is_for_library(x, weight, scale, dtype) or not _is_for_triton(weight):
        return linear_float8(x, weight, scale, bias, dtype)[None]
    return launch(x, weight, scale, bias, dtype, choose_tile(x, weight, scale, may_split=True))


def library(
    x: Float8Rows, weight: Tensor, scale: Tensor, bias: Tensor | None, dtype: torch.dtype
) -> Tensor:
    """torch's product with scales of rows; bfloat16, and features in multiples of 16.

    Its sums stay in the tensor cores: 14 bits of a float, which is far finer than float8."""
    return torch._scaled_mm(
        x.values,
        weight.t(),
        x.scale,
        scale[None, :],
        bias=None if bias is None else bias.to(dtype),
        out_dtype=dtype,
        use_fast_accum=True,
    )


def _is_for_library(x: Float8Rows, weight: Tensor, scale: Tensor, dtype: torch.dtype) -> bool:
    can = (
        scale.dim() == 1
        and dtype == torch.bfloat16
        and weight.shape[0] % 16 == weight.shape[1] % 16 == 0
        and weight.stride(1) == 1
    )
    return can and (len(x.values) > _most_rows(x.device) or not _is_for_triton(weight))


def _is_for_triton(weight: Tensor) -> bool:
    return weight.is_contiguous() and weight.shape[1] % BLOCK == 0


@cache
def _most_rows(device: torch.device) -> int:
    if device.type != "cuda":
        return _OTHER_MOST_ROWS
    return _MOST_ROWS.get(torch.cuda.get_device_capability(device), _OTHER_MOST_ROWS)


def choose_tile(x: Float8Rows, weight: Tensor, scale: Tensor, *, may_split: bool) -> Tile:
    """From shapes alone."""
    num_rows, (num_outputs, row_len) = len(x.values), weight.shape
    num_processors = num_multiprocessors(x.device)
    rows = min(_LARGEST_TILE, max(16, triton.next_power_of_2(num_rows)))
    is_wide = rows == _LARGEST_TILE or num_outputs >= 128 * num_processors
    outputs = 128 if is_wide else 64
    can_double = scale.dim() == 1 and not is_wide and row_len % (2 * BLOCK) == 0
    columns = 2 * BLOCK if can_double else BLOCK
    num_programs = triton.cdiv(num_outputs, outputs) * triton.cdiv(num_rows, rows)
    return Tile(
        rows,
        outputs,
        columns,
        _num_splits(num_programs, num_processors, row_len // columns) if may_split else 1,
        num_warps=8 if rows == _LARGEST_TILE else 4,
        num_stages=4,
    )


def _num_splits(num_programs: int, num_processors: int, num_steps: int) -> int:
    """Over so many programs each sum may be spread before there are more of them than
    multiprocessors."""
    num_splits = 1
    while (
        num_splits < 4
        and 2 * num_splits * num_programs <= num_processors
        and num_steps % (2 * num_splits) == 0
    ):
        num_splits *= 2
    return num_splits


def launch(
    x: Float8Rows,
    weight: Tensor,
    scale: Tensor,
    bias: Tensor | None,
    dtype: torch.dtype,
    tile: Tile,
) -> Tensor:
    """[splits, T, outputs]; float32 where there are several splits."""
    num_rows, (num_outputs, row_len) = len(x.values), weight.shape
    kept = torch.float32 if tile.num_splits > 1 else dtype
    output = torch.empty(tile.num_splits, num_rows, num_outputs, dtype=kept, device=x.device)
    grid = (
        triton.cdiv(num_outputs, tile.outputs),
        tile.num_splits,
        triton.cdiv(num_rows, tile.rows),
    )
    _linear_kernel[grid](
        _Factors(*x, weight, scale),
        bias,
        output,
        num_rows,
        num_outputs,
        ROW_LEN=row_len,
        HAS_BLOCKS=scale.dim() == 2,
        ROWS=tile.rows,
        OUTPUTS=tile.outputs,
        COLUMNS=tile.columns,
        NUM_SPLITS=tile.num_splits,
        PREFETCHED=_PREFETCHED,
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
        **overlap(x.device),
    )
    return output
