"""Owns the Triton kernel of products of float8.

It works like that of `linear`: a program prefetches its part of the weight into the L2 cache while
the kernels before it still run, and if there are few programs, several share a sum. Tensor cores
keep too few digits for a long sum, so it sums only 128 products at a time there, and adds these
sums in float32.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl
from triton.language.extra import cuda

from specguide.kernels.triton.device import prefetch


@triton.jit
def _prefetch(weight, PREFETCHED: tl.constexpr, row, row_len):
    """Prefetch the first columns of some rows into the L2 cache, in lines of 128 columns."""
    lines = (
        weight
        + row[:, None].to(tl.int64) * row_len
        + tl.arange(0, PREFETCHED // 128)[None, :] * 128
    )
    prefetch(lines)


class Factors(NamedTuple):
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
    """Sums over SHARE columns from `begin` on, float32 [features, rows]; scaled if the weight has
    blocks."""
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


@triton.jit
def _scaled(total, factors, bias, source, row, is_row, split, HAS_BLOCKS: tl.constexpr):
    """Sums times the scales of rows and features, plus the bias, which the first split adds."""
    if not HAS_BLOCKS:
        x_scales = tl.load(factors.x_scale + row, mask=is_row, other=0)
        total *= tl.load(factors.scale + source)[:, None] * x_scales[None, :]
    if bias is not None:
        total += tl.where(split == 0, tl.load(bias + source).to(tl.float32), 0.0)[:, None]
    return total


@triton.jit(do_not_specialize=["num_rows"])
def linear_float8_kernel(
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
    """The product of some rows with some features."""
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
    total = _scaled(total, factors, bias, source, row, is_row, split, HAS_BLOCKS)
    sink = output + (split * num_rows + row[None, :]) * num_outputs + feature[:, None]
    tl.store(sink, total, mask=exists[:, None] & is_row[None, :])


@triton.jit(do_not_specialize=["num_rows"])
def gated_linear_float8_kernel(
    factors,
    bias,
    output,
    largest,
    num_rows,
    num_outputs,
    ROW_LEN: tl.constexpr,
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    COLUMNS: tl.constexpr,
    PREFETCHED: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """silu(gate) · up for OUTPUTS / 2 features of some rows, and each row's largest absolute value.

    num_outputs: a multiple of OUTPUTS / 2; the weight has so many gates, then as many ups
    """
    HALF: tl.constexpr = OUTPUTS // 2
    within = tl.arange(0, OUTPUTS)
    source = tl.program_id(0) * HALF + within % HALF + tl.where(within < HALF, 0, num_outputs)
    if OVERLAP:
        cuda.gdc_launch_dependents()
        _prefetch(factors.weight, PREFETCHED, source, ROW_LEN)
        cuda.gdc_wait()
    row = (tl.program_id(1) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    is_row = row < num_rows
    total = _products(factors, row, is_row, source, 0, ROW_LEN, ROW_LEN, COLUMNS, False)
    total = _scaled(total, factors, bias, source, row, is_row, 0, False)
    dtype: tl.constexpr = output.dtype.element_ty
    both = tl.reshape(total.to(dtype).to(tl.float32), (2, HALF, ROWS))
    gate, up = tl.split(tl.permute(both, (1, 2, 0)))
    activated = (gate / (1.0 + tl.exp(-gate)) * up).to(dtype)
    feature = tl.program_id(0) * HALF + tl.arange(0, HALF)
    sink = output + row[None, :] * num_outputs + feature[:, None]
    tl.store(sink, activated, mask=is_row[None, :])
    most = tl.max(tl.abs(activated.to(tl.float32)), 0)
    tl.store(largest + row * tl.num_programs(0) + tl.program_id(0), most, mask=is_row)
