"""Owns the Triton products of few rows with a large weight, which take most of the time when small
batches are decoded.

Such a product takes as long as reading the weight. A library loses time between two such kernels.
Here a program is placed while the kernels before it still run, and prefetches its part of the
weight into the L2 cache meanwhile. If there are too few programs to keep the device busy, the sum
is split over several, and whoever adds the parts to the residual stream sums them. On Hopper GPUs
the kernel of `linear_hopper` does all this, except for gated products.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor
from triton.language.extra import cuda

from specguide.kernels import products
from specguide.kernels.triton import linear_hopper
from specguide.kernels.triton.activation import silu_mul
from specguide.kernels.triton.device import num_multiprocessors, overlap, prefetch
from specguide.kernels.triton.splits import num_splits_of

_MOST_ROWS = 64
_BLOCK_IN = 128
_LIBRARY_TILE = 128
"""Minimum rows, and minimum features, of a program of the library's kernel when rows are many."""
_PREFETCHED = 128
"""Columns of each weight row that are prefetched before the kernel may begin; more would displace
other data."""


@dataclass(frozen=True)
class Tile:
    """What a program computes. block_out: features; num_splits: programs over which the sum of one
    feature is spread"""

    block_out: int
    num_splits: int
    num_stages: int


@triton.jit
def _prefetch(weight, PREFETCHED: tl.constexpr, row, row_len):
    """Prefetch the first columns of some rows into the L2 cache, in lines of 64 columns."""
    lines = (
        weight + row[:, None].to(tl.int64) * row_len + tl.arange(0, PREFETCHED // 64)[None, :] * 64
    )
    prefetch(lines)


@triton.jit
def _await_inputs(
    weight,
    start,
    source,
    num_outputs,
    ROW_LEN: tl.constexpr,
    GATED: tl.constexpr,
    PREFETCHED: tl.constexpr,
):
    """Prefetch weights into the cache while the kernels before still run."""
    cuda.gdc_launch_dependents()
    _prefetch(weight + start, PREFETCHED, source, ROW_LEN)
    if GATED:
        _prefetch(weight, PREFETCHED, source + num_outputs, ROW_LEN)
    cuda.gdc_wait()


@triton.jit
def with_bias(total, total_up, bias, split, source, num_outputs, GATED: tl.constexpr):
    """The sums; the first split adds the bias."""
    if bias is not None:
        total += tl.where(split == 0, tl.load(bias + source).to(tl.float32), 0.0)[:, None]
        if GATED:
            total_up += tl.load(bias + num_outputs + source).to(tl.float32)[:, None]
    return total, total_up


@triton.jit(do_not_specialize=["num_rows"])
def _linear_kernel(
    x,
    weight,
    bias,
    output,
    num_rows,
    num_outputs,
    x_stride,
    ROW_LEN: tl.constexpr,
    GATED: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_OUT: tl.constexpr,
    BLOCK_IN: tl.constexpr,
    NUM_SPLITS: tl.constexpr,
    PREFETCHED: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """The product of all rows with some features. GATED: the second half of the weight is
    multiplied with the activated first half"""
    feature = tl.program_id(0) * BLOCK_OUT + tl.arange(0, BLOCK_OUT)
    exists = feature < num_outputs
    source = tl.where(exists, feature, 0)
    split = tl.program_id(1)
    SHARE: tl.constexpr = ROW_LEN // NUM_SPLITS
    if OVERLAP:
        _await_inputs(weight, split * SHARE, source, num_outputs, ROW_LEN, GATED, PREFETCHED)
    row = tl.arange(0, ROWS)
    total = tl.zeros((BLOCK_OUT, ROWS), tl.float32)
    total_up = total
    for start in range(0, SHARE, BLOCK_IN):
        column = split * SHARE + start + tl.arange(0, BLOCK_IN)
        inputs = x + row[None, :] * x_stride + column[:, None]
        inputs = tl.load(inputs, mask=row[None, :] < num_rows, other=0)
        weights = weight + source[:, None].to(tl.int64) * ROW_LEN + column[None, :]
        total = tl.dot(tl.load(weights), inputs, total)
        if GATED:
            up = weights + tl.cast(num_outputs, tl.int64) * ROW_LEN
            total_up = tl.dot(tl.load(up), inputs, total_up)
    total, total_up = with_bias(total, total_up, bias, split, source, num_outputs, GATED)
    if GATED:
        total = total / (1.0 + tl.exp(-total)) * total_up
    sink = output + (split * num_rows + row[None, :]).to(tl.int64) * num_outputs + feature[:, None]
    tl.store(sink, total, mask=exists[:, None] & (row < num_rows)[None, :])


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """See pointwise.linear."""
    if not _is_few(x, weight):
        return _by_library(x, weight, bias)
    return _launch(x, weight, bias, is_gated=False, may_split=False)[0]


def linear_parts(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """See pointwise.linear_parts."""
    if _is_few(x, weight):
        return _launch(x, weight, bias, is_gated=False, may_split=True)
    tiles = triton.cdiv(x.shape[0], _LIBRARY_TILE) * triton.cdiv(weight.shape[0], _LIBRARY_TILE)
    if bias is not None or x.element_size() != 2 or _splits(x, tiles) == 1:
        return _by_library(x, weight, bias)[None]
    found = products.product(x, weight, has_halves=True)
    return products.halves(x, weight) if found is None else found[None]


def gated_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """See pointwise.gated_linear."""
    if not _is_few(x, weight):
        return silu_mul(_by_library(x, weight, bias))
    return _launch(x, weight, bias, is_gated=True, may_split=False)[0]


def _by_library(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    found = products.product(x, weight) if bias is None else None
    return F.linear(x, weight, bias) if found is None else found


def _is_few(x: Tensor, weight: Tensor) -> bool:
    return (
        x.shape[0] <= _MOST_ROWS
        and x.element_size() == 2
        and x.stride(1) == 1
        and weight.is_contiguous()
        and weight.shape[1] % _BLOCK_IN == 0
    )


def _splits(x: Tensor, num_programs: int) -> int:
    """Number of splits that gives at most as many programs as multiprocessors; 1 if the columns do
    not fill whole blocks."""
    num_steps, num_left = divmod(x.shape[1], _BLOCK_IN)
    return num_splits_of(num_programs, num_multiprocessors(x.device), 1 if num_left else num_steps)


def choose_tile(x: Tensor, weight: Tensor, *, is_gated: bool, may_split: bool) -> Tile:
    """The tile for products of these shapes; the choice was the fastest on an H200."""
    num_processors = num_multiprocessors(x.device)
    num_outputs = weight.shape[0] // (2 if is_gated else 1)
    block_out = 128 if not is_gated and num_outputs >= 128 * num_processors else 64
    num_splits = _splits(x, triton.cdiv(num_outputs, block_out)) if may_split else 1
    return Tile(block_out, num_splits, num_stages=4 if is_gated or block_out == 128 else 6)


def _launch(
    x: Tensor, weight: Tensor, bias: Tensor | None, *, is_gated: bool, may_split: bool
) -> Tensor:
    """The product in its best tile, [splits, T, outputs]; float32 where there are several
    splits."""
    if not is_gated:  # gated products take equally long
        found = linear_hopper.product(x, weight, bias, x.dtype, may_split=may_split)
        if found is not None:
            return found
    tile = choose_tile(x, weight, is_gated=is_gated, may_split=may_split)
    num_rows, num_outputs = x.shape[0], weight.shape[0] // (2 if is_gated else 1)
    dtype = torch.float32 if tile.num_splits > 1 else x.dtype
    output = torch.empty(tile.num_splits, num_rows, num_outputs, dtype=dtype, device=x.device)
    _linear_kernel[(triton.cdiv(num_outputs, tile.block_out), tile.num_splits)](
        x,
        weight,
        bias,
        output,
        num_rows,
        num_outputs,
        x.stride(0),
        ROW_LEN=weight.shape[1],
        GATED=is_gated,
        ROWS=max(16, triton.next_power_of_2(num_rows)),
        BLOCK_OUT=tile.block_out,
        BLOCK_IN=_BLOCK_IN,
        NUM_SPLITS=tile.num_splits,
        PREFETCHED=_PREFETCHED,
        num_warps=4,
        num_stages=tile.num_stages,
        **overlap(x.device),
    )
    return output
