"""Owns the Triton kernels that round to float8: rows as they are, or after the gated activation."""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from specguide.kernels.float8 import BLOCK, FLOAT8, LARGEST, LEAST_ROW, Float8Rows, Float8Scaling
from specguide.kernels.pointwise import ProductScales
from specguide.kernels.triton.device import await_results, num_multiprocessors, overlap

_LARGEST = tl.constexpr(LARGEST)
_LEAST_ROW = tl.constexpr(LEAST_ROW)
_FEATURES_EACH, _MOST_STEPS = 4, 8
"""Features per thread in each step over a row, and maximum steps if programs have enough
threads."""
_REGISTERS = 64
"""Maximum registers per thread, so that a program with all threads of a multiprocessor fits on
it."""
_CHUNK = 1024
"""Features per program, if it need not see the whole row."""


class ScalesAt(NamedTuple):
    """Pointers to a product's scales; None: the product has none."""

    rows: Any
    columns: Any


NO_SCALES = ScalesAt(None, None)


class Float8Scales(NamedTuple):
    """Two pointers: where the rows' scales are written (None: nothing is rounded), and the scale of
    all rows (None: each row's scale is computed from its numbers)."""

    scales: Any
    static_scale: Any


@triton.jit
def with_scales(values, scales, row, column, is_row, is_column):
    """A product's values, float32 [rows, columns], times its ProductScales. row: [rows, 1], column:
    [1, columns]"""
    if scales.rows is not None:
        values *= tl.load(scales.columns + column, mask=is_column, other=0)
        values *= tl.load(scales.rows + row, mask=is_row, other=0)
    return values


@triton.jit
def scale_of_row(largest, static_scale):
    """The scale of a row whose largest absolute value is given."""
    if static_scale is not None:
        scale = tl.load(static_scale)
    else:
        largest = tl.maximum(largest, _LEAST_ROW)
        scale = tl.div_rn(largest, tl.full((), _LARGEST, tl.float32))
    return scale


@triton.jit
def clamped(values):
    """The values, clamped to the range of float8; NaN stays."""
    return tl.clamp(values, -_LARGEST, _LARGEST, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def rounded(values, scale):
    """A row's values, float32, rounded to float8."""
    return clamped(values * tl.div_rn(tl.full((), 1.0, tl.float32), scale))


@triton.jit
def store_float8(
    values,
    output,
    float8,
    row,
    column,
    num_rows,
    DIM: tl.constexpr,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
    GROUP: tl.constexpr,
):
    """Round values [ROWS, WIDTH], 0 beyond DIM, of rows `row` [ROWS, 1] and columns `column` [1,
    WIDTH]; every GROUP of them share a scale."""
    row = row.to(tl.int64)
    exists = (row < num_rows) & (column < DIM)
    groups = tl.reshape(values, (ROWS, WIDTH // GROUP, GROUP))
    if float8.static_scale is not None:
        scale = tl.zeros((ROWS, WIDTH // GROUP), tl.float32) + tl.load(float8.static_scale)
    else:
        largest = tl.maximum(tl.max(tl.abs(groups), 2), _LEAST_ROW)
        scale = tl.div_rn(largest, tl.full((ROWS, WIDTH // GROUP), _LARGEST, tl.float32))
    inverse = tl.div_rn(tl.full((ROWS, WIDTH // GROUP), 1.0, tl.float32), scale)
    rounded = tl.reshape(clamped(groups * inverse[:, :, None]), (ROWS, WIDTH))
    tl.store(output + row * DIM + column, rounded.to(output.dtype.element_ty), mask=exists)
    NUM_GROUPS: tl.constexpr = (DIM + GROUP - 1) // GROUP
    group = tl.min(column) // GROUP + tl.arange(0, WIDTH // GROUP)[None, :]
    sink = float8.scales + row * NUM_GROUPS + group
    tl.store(sink, scale, mask=(row < num_rows) & (group < NUM_GROUPS))


@triton.jit
def _numbers(
    x, product_scales, row, column, exists, row_stride, GATED: tl.constexpr, DIM: tl.constexpr
):
    """The numbers of a row that are to be rounded, float32; 0 beyond its end."""
    source = x + row * row_stride + column
    values = tl.load(source, mask=exists, other=0).to(tl.float32)
    values = with_scales(values, product_scales, row, column, row >= 0, exists)
    if GATED:
        up = tl.load(source + DIM, mask=exists, other=0).to(tl.float32)
        up = with_scales(up, product_scales, row, column + DIM, row >= 0, exists)
        values = values / (1.0 + tl.exp(-values)) * up
        values = values.to(x.dtype.element_ty).to(tl.float32)
    return values


@triton.jit
def _round_rows_kernel(
    x,
    product_scales,
    output,
    float8,
    row_stride,
    GATED: tl.constexpr,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Round a row, in steps of WIDTH columns. Its numbers stay in registers until the largest is
    known."""
    await_results(OVERLAP)
    row = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, WIDTH)
    NUM_STEPS: tl.constexpr = (DIM + WIDTH - 1) // WIDTH
    largest = tl.full((WIDTH,), 0, tl.float32)
    kept = ()
    for step in tl.static_range(NUM_STEPS):
        at = step * WIDTH + column
        values = _numbers(x, product_scales, row, at, at < DIM, row_stride, GATED, DIM)
        largest = tl.maximum(largest, tl.abs(values))
        kept += (values.to(x.dtype.element_ty),)  # type: ignore[assignment]
    scale = scale_of_row(tl.max(largest, 0), float8.static_scale)
    for step in tl.static_range(NUM_STEPS):
        at = step * WIDTH + column
        values = rounded(kept[step].to(tl.float32), scale)
        tl.store(output + row * DIM + at, values.to(output.dtype.element_ty), mask=at < DIM)
    tl.store(float8.scales + row, scale)


@triton.jit(do_not_specialize=["num_rows"])
def _round_groups_kernel(
    x,
    product_scales,
    output,
    float8,
    num_rows,
    row_stride,
    GATED: tl.constexpr,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    GROUP: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Round WIDTH columns of a row; every GROUP of them share a scale."""
    await_results(OVERLAP)
    row = tl.program_id(0) + tl.zeros((1, 1), tl.int64)
    column = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)[None, :]
    values = _numbers(x, product_scales, row, column, column < DIM, row_stride, GATED, DIM)
    store_float8(values, output, float8, row, column, num_rows, DIM, 1, WIDTH, GROUP)


@triton.jit
def _round_by_largest_kernel(
    x,
    largest,
    output,
    scales,
    DIM: tl.constexpr,
    WIDTH: tl.constexpr,
    NUM_PARTS: tl.constexpr,
    BLOCK_PARTS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Round WIDTH features of a row, whose largest number is the maximum of its entries in
    `largest` [rows, parts]."""
    await_results(OVERLAP)
    row = tl.program_id(0).to(tl.int64)
    column, part = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH), tl.arange(0, BLOCK_PARTS)
    exists = column < DIM
    values = tl.load(x + row * DIM + column, mask=exists, other=0).to(tl.float32)
    parts = tl.load(largest + row * NUM_PARTS + part, mask=part < NUM_PARTS, other=0)
    most = tl.max(parts, 0)
    scale = scale_of_row(most, None)
    values = rounded(values, scale)
    tl.store(output + row * DIM + column, values.to(output.dtype.element_ty), mask=exists)
    tl.store(scales + row, scale, mask=tl.program_id(1) == 0)


def to_float8_by(x: Tensor, largest: Tensor) -> Float8Rows:
    """The rows of x [T, D], each rounded by its own scale.

    largest: float32 [T, parts], the largest absolute value of each part of a row
    """
    (num_rows, dim), num_parts = x.shape, largest.shape[1]
    rows = empty_rows(num_rows, dim, Float8Scaling(), x.device)
    _round_by_largest_kernel[(num_rows, triton.cdiv(dim, _CHUNK))](
        x,
        largest,
        rows.values,
        rows.scale,
        DIM=dim,
        WIDTH=_CHUNK,
        NUM_PARTS=num_parts,
        BLOCK_PARTS=triton.next_power_of_2(num_parts),
        num_warps=2,
        **overlap(x.device),
    )
    return rows


def to_float8(x: Tensor, scaling: Float8Scaling) -> Float8Rows:
    """See float8.to_float8."""
    x = x if x.stride(1) == 1 else x.contiguous()
    return _round(x, x.shape[1], scaling, is_gated=False)


def silu_mul_float8(
    gate_up: Tensor, scaling: Float8Scaling, scales: ProductScales | None = None
) -> Float8Rows:
    """See float8.silu_mul_float8."""
    return _round(gate_up, gate_up.shape[1] // 2, scaling, scales, is_gated=True)


def empty_rows(num_rows: int, dim: int, scaling: Float8Scaling, device: torch.device) -> Float8Rows:
    """Uninitialised rows."""
    num_groups = triton.cdiv(dim, BLOCK) if scaling.is_grouped else 1
    return Float8Rows(
        torch.empty(num_rows, dim, dtype=FLOAT8, device=device),
        torch.empty(num_rows, num_groups, dtype=torch.float32, device=device),
    )


def _round(
    x: Tensor,
    dim: int,
    scaling: Float8Scaling,
    scales: ProductScales | None = None,
    *,
    is_gated: bool,
) -> Float8Rows:
    rows = empty_rows(len(x), dim, scaling, x.device)
    product_scales = NO_SCALES if scales is None else ScalesAt(*scales)
    float8 = Float8Scales(rows.scale, scaling.static_scale)
    if scaling.is_grouped:
        width = min(_CHUNK, max(BLOCK, triton.next_power_of_2(dim)))
        _round_groups_kernel[(len(x), triton.cdiv(dim, width))](
            x,
            product_scales,
            rows.values,
            float8,
            len(x),
            x.stride(0),
            GATED=is_gated,
            DIM=dim,
            WIDTH=width,
            GROUP=BLOCK,
            num_warps=max(1, width // 512),
            **overlap(x.device),
        )
        return rows
    num_warps = _num_warps(len(x), dim, x.device)
    _round_rows_kernel[(len(x),)](
        x,
        product_scales,
        rows.values,
        float8,
        x.stride(0),
        GATED=is_gated,
        DIM=dim,
        WIDTH=32 * num_warps * _FEATURES_EACH,
        num_warps=num_warps,
        maxnreg=_REGISTERS,
        **overlap(x.device),
    )
    return rows


def _num_warps(num_rows: int, dim: int, device: torch.device) -> int:
    """The number of warps of a program that rounds a row. It has all threads of a multiprocessor if
    it may be alone there or the row would take too many steps, else half of them, so that another
    program fits."""
    most = 16 if num_rows > num_multiprocessors(device) else 32
    if dim > _MOST_STEPS * 32 * most * _FEATURES_EACH:
        most = 32
    return max(1, min(most, triton.next_power_of_2(dim) // (32 * _FEATURES_EACH)))
