"""Owns the Triton kernel of products of float8.

It is that of `linear`: a program has its part of the weight brought to the L2 cache while the
kernels before it still run, and of few programs several share a sum. It sums 128 products at a time
in the tensor core, which keeps too few digits for more, and adds these up in float32. Few rows it
rounds itself, as it reads them: each program does so anew, which takes less time than a kernel of
its own.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl
from triton.language.extra import cuda

from specguide.kernels.triton.device import prefetch
from specguide.kernels.triton.float8 import rounded, scale_of
from specguide.kernels.triton.linear import with_bias

_NUM_READ = tl.constexpr(16384)
"""Numbers among which a program looks for the largest of rows at a time."""


class Factors(NamedTuple):
    """Pointers to the rows and the weight, each with its scales.

    x_scale: by ROUNDING: "none" of each row, or of its groups; "static" of all; "largest" of each
             row the largest numbers of NUM_PARTS parts; "rows", "groups" None
    x_stride: from a row to the next
    """

    x: Any
    x_scale: Any
    weight: Any
    scale: Any
    x_stride: Any


class _Rows(NamedTuple):
    """Numbers of some rows, whether they are there, and their scales."""

    number: Any
    exist: Any
    scale: Any


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


@triton.jit
def _largest_of(factors, row, num_rows, ROW_LEN: tl.constexpr, COUNT: tl.constexpr):
    """The largest absolute value of each row of `row`, float32 [rows]; COUNT: of rows that are
    there, or more."""
    WIDTH: tl.constexpr = _NUM_READ // COUNT
    some = tl.arange(0, COUNT)
    source = factors.x + some[:, None].to(tl.int64) * factors.x_stride
    largest = tl.zeros((COUNT,), tl.float32)
    for start in range(0, ROW_LEN, WIDTH):
        column = start + tl.arange(0, WIDTH)[None, :]
        is_number = (some < num_rows)[:, None] & (column < ROW_LEN)
        values = tl.load(source + column, mask=is_number, other=0)
        largest = tl.maximum(largest, tl.max(tl.abs(values.to(tl.float32)), 1))
    return tl.max(tl.where(row[:, None] == some[None, :], largest[None, :], 0.0), 1)


@triton.jit
def _scales_of_rows(
    factors,
    row,
    num_rows,
    ROW_LEN: tl.constexpr,
    ROUNDING: tl.constexpr,
    NUM_PARTS: tl.constexpr,
    BLOCK_PARTS: tl.constexpr,
    COUNT: tl.constexpr,
):
    """Of rows that have one scale each, float32 [rows]."""
    is_row = row < num_rows
    if ROUNDING == "static":
        scale = tl.zeros(row.shape, tl.float32) + tl.load(factors.x_scale)
    elif ROUNDING == "largest":
        part = tl.arange(0, BLOCK_PARTS)[None, :]
        is_part = is_row[:, None] & (part < NUM_PARTS)
        parts = tl.load(factors.x_scale + row[:, None] * NUM_PARTS + part, mask=is_part, other=0)
        scale = scale_of(tl.max(parts, 1))
    elif ROUNDING == "rows":
        scale = scale_of(_largest_of(factors, row, num_rows, ROW_LEN, COUNT))
    else:
        scale = tl.load(factors.x_scale + row, mask=is_row, other=0)
    return scale


@triton.jit
def _inputs(factors, rows, column, block, NUM_BLOCKS, HAS_BLOCKS, ROUNDING: tl.constexpr):
    """Some columns of the rows, float8 [columns, rows], and the scales of the rows there."""
    source = factors.x + rows.number[None, :] * factors.x_stride + column[:, None]
    inputs = tl.load(source, mask=rows.exist[None, :], other=0.0)
    scale = rows.scale
    if HAS_BLOCKS and ROUNDING == "none":
        source = factors.x_scale + rows.number * NUM_BLOCKS + block
        scale = tl.load(source, mask=rows.exist, other=0)
    if ROUNDING == "groups":
        scale = scale_of(tl.max(tl.abs(inputs.to(tl.float32)), 0))
    if ROUNDING != "none":
        dtype: tl.constexpr = factors.weight.dtype.element_ty
        inputs = rounded(inputs.to(tl.float32), scale[None, :], dtype, ROUNDING == "static")
    return inputs, scale


@triton.jit
def _add_products(
    total, factors, inputs, x_scale, source, column, block, ROW_LEN, HAS_BLOCKS: tl.constexpr
):
    """total + the products of some features in some columns; scaled where the weight has blocks."""
    weights_at = factors.weight + source[:, None].to(tl.int64) * ROW_LEN + column[None, :]
    weights = tl.load(weights_at)
    if HAS_BLOCKS:
        scale = tl.load(factors.scale + (source // 128) * (ROW_LEN // 128) + block)
        total += tl.dot(weights, inputs) * (scale[:, None] * x_scale[None, :])
    else:
        total = tl.dot(weights, inputs, total, max_num_imprecise_acc=128)
    return total


@triton.jit
def _products(
    factors,
    rows,
    source,
    num_outputs,
    begin,
    ROW_LEN: tl.constexpr,
    SHARE: tl.constexpr,
    COLUMNS: tl.constexpr,
    HAS_BLOCKS: tl.constexpr,
    GATED: tl.constexpr,
    ROUNDING: tl.constexpr,
):
    """Sums over SHARE columns from `begin` on, float32 [features, rows]; GATED: of the second half
    of the features, too."""
    total = tl.zeros((source.shape[0], rows.number.shape[0]), tl.float32)
    total_up = total
    for start in range(0, SHARE, COLUMNS):
        column, block = begin + start + tl.arange(0, COLUMNS), (begin + start) // 128
        inputs, x_scale = _inputs(
            factors, rows, column, block, ROW_LEN // 128, HAS_BLOCKS, ROUNDING
        )
        total = _add_products(
            total, factors, inputs, x_scale, source, column, block, ROW_LEN, HAS_BLOCKS
        )
        if GATED:
            up = source + num_outputs
            total_up = _add_products(
                total_up, factors, inputs, x_scale, up, column, block, ROW_LEN, HAS_BLOCKS
            )
    if not HAS_BLOCKS:
        total *= tl.load(factors.scale + source)[:, None] * rows.scale[None, :]
        if GATED:
            total_up *= tl.load(factors.scale + num_outputs + source)[:, None] * rows.scale[None, :]
    return total, total_up


@triton.jit
def _await_inputs(
    factors, source, num_outputs, begin, ROW_LEN: tl.constexpr, GATED, PREFETCHED: tl.constexpr
):
    """Have weights brought to the cache while the kernels before still run."""
    cuda.gdc_launch_dependents()
    _prefetch(factors.weight + begin, PREFETCHED, source, ROW_LEN)
    if GATED:
        _prefetch(factors.weight + begin, PREFETCHED, source + num_outputs, ROW_LEN)
    cuda.gdc_wait()


@triton.jit(do_not_specialize=["num_rows"])
def linear_float8_kernel(
    factors,
    bias,
    output,
    largest,
    num_rows,
    num_outputs,
    ROW_LEN: tl.constexpr,
    HAS_BLOCKS: tl.constexpr,
    GATED: tl.constexpr,
    ROUNDING: tl.constexpr,
    NUM_PARTS: tl.constexpr,
    BLOCK_PARTS: tl.constexpr,
    COUNT: tl.constexpr,
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    COLUMNS: tl.constexpr,
    NUM_SPLITS: tl.constexpr,
    PREFETCHED: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Some features of some rows. GATED: the second half of the features is multiplied with the
    activated first half.

    largest: takes the largest absolute value of what a program gives of each row [num_rows,
             programs]; None: nobody asks
    """
    feature = tl.program_id(0) * OUTPUTS + tl.arange(0, OUTPUTS)
    exists = feature < num_outputs
    source = tl.where(exists, feature, 0)
    split = tl.program_id(1)
    SHARE: tl.constexpr = ROW_LEN // NUM_SPLITS
    if OVERLAP:
        _await_inputs(factors, source, num_outputs, split * SHARE, ROW_LEN, GATED, PREFETCHED)
    row = (tl.program_id(2) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    is_row = row < num_rows
    x_scale = row.to(tl.float32)
    if not HAS_BLOCKS:
        x_scale = _scales_of_rows(
            factors, row, num_rows, ROW_LEN, ROUNDING, NUM_PARTS, BLOCK_PARTS, COUNT
        )
    total, total_up = _products(
        factors,
        _Rows(row, is_row, x_scale),
        source,
        num_outputs,
        split * SHARE,
        ROW_LEN,
        SHARE,
        COLUMNS,
        HAS_BLOCKS,
        GATED,
        ROUNDING,
    )
    total, total_up = with_bias(total, total_up, bias, split, source, num_outputs, GATED)
    if GATED:
        total = total / (1.0 + tl.exp(-total)) * total_up
    kept = total.to(output.dtype.element_ty)
    sink = output + (split * num_rows + row[None, :]) * num_outputs + feature[:, None]
    tl.store(sink, kept, mask=exists[:, None] & is_row[None, :])
    if largest is not None:
        magnitude = tl.where(exists[:, None], tl.abs(kept.to(tl.float32)), 0.0)
        program = row * tl.num_programs(0) + tl.program_id(0)
        tl.store(largest + program, tl.max(magnitude, 0), mask=is_row)
