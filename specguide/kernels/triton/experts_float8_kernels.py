"""Owns the Triton kernel of the products of float8 experts with float8 inputs: a program multiplies
a block of pairs, or a part of it, with some features of its expert.

Tensor cores keep too few digits for a long sum, so they sum only 128 products at a time; these sums
are added in float32. If a program's features share their scales, a step scales the inputs' scales
alone, and each of its sums costs one operation.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl

from specguide.kernels.triton.device import await_results
from specguide.kernels.triton.experts_kernels import gated
from specguide.kernels.triton.float8 import rounded, scale_of_row

_EXACT = tl.constexpr(128)
"""Products that the tensor cores add up."""


class RowPointers(NamedTuple):
    """Pointers to the tensors of Float8Rows or UnroundedRows."""

    numbers: Any
    scales: Any


class Float8Form(NamedTuple):
    """Constants: row length, columns per step, rows and columns of a weight that share a scale, and
    columns of an input that do. HAS_BLOCKS: a row has several scales. IS_ALIKE: all features of a
    program have the same scales. IS_BY_ROWS: products are [rows, features], so that a thread has
    few rows and their scales; else [features, rows], since tensor cores take 64 of the first.
    NUM_PARTS: parts of UnroundedRows; 0: rows are rounded. BLOCK_PARTS: a power of two of at least
    as many"""

    ROW_LEN: Any
    BLOCK_IN: Any
    SCALE_ROWS: Any
    SCALE_COLUMNS: Any
    GROUP: Any
    HAS_BLOCKS: Any
    IS_ALIKE: Any
    IS_BY_ROWS: Any
    NUM_PARTS: Any
    BLOCK_PARTS: Any


class Float8Sink(NamedTuple):
    """Pointers to what is written.

    numbers:      a row for each pair
    scales:       if the numbers are float8, their scales; a program writes one for each pair
    static_scale: the scale of all numbers; None: it is computed
    largest:      each program's largest absolute value for each pair
    All but `numbers` may be None: they are not rounded to float8.
    """

    numbers: Any
    scales: Any
    static_scale: Any
    largest: Any


@triton.jit
def _dot(inputs, weights, total, form):
    """The products of inputs [rows, columns] with weights [features, columns], in the form's order;
    plus a total, unless this is None."""
    if form.IS_BY_ROWS:
        left, right = inputs, tl.trans(weights)
    else:
        left, right = weights, tl.trans(inputs)
    if total is None:
        return tl.dot(left, right)
    else:
        return tl.dot(left, right, total, max_num_imprecise_acc=_EXACT)


@triton.jit
def _both_scales(input_scales, scales, form):
    """The scales of some products, in the form's order. scales: those of the features, or one for
    all of them"""
    if form.IS_ALIKE:
        both = input_scales * scales
        return both[:, None] if form.IS_BY_ROWS else both[None, :]
    elif form.IS_BY_ROWS:
        return input_scales[:, None] * scales[None, :]
    else:
        return input_scales[None, :] * scales[:, None]


@triton.jit
def _add(total, matrix, feature, first, inputs, input_scales, start, form):
    """The total plus the products of one step; scaled if a row has several scales.

    matrix: pointers to an expert's numbers and scales
    first:  the first feature
    """
    ROW_LEN: tl.constexpr = form.ROW_LEN
    column = (start + tl.arange(0, form.BLOCK_IN))[None, :]
    weights_at = matrix.numbers + feature[:, None] * ROW_LEN + column
    if ROW_LEN % form.BLOCK_IN == 0:
        weights = tl.load(weights_at)
    else:
        weights = tl.load(weights_at, mask=column < ROW_LEN, other=0.0)
    if form.HAS_BLOCKS:
        NUM_BLOCKS: tl.constexpr = (ROW_LEN + form.SCALE_COLUMNS - 1) // form.SCALE_COLUMNS
        block = (first if form.IS_ALIKE else feature) // form.SCALE_ROWS
        scales = tl.load(matrix.scales + start // form.SCALE_COLUMNS + block * NUM_BLOCKS)
        product = _dot(inputs, weights, None, form)
        return total + product * _both_scales(input_scales, scales, form)
    else:
        return _dot(inputs, weights, total, form)


@triton.jit
def _finished(total, matrix, feature, first, input_scales, form):
    """The products [rows, features]; scaled if a row has one scale."""
    if not form.HAS_BLOCKS:
        block = (first if form.IS_ALIKE else feature) // form.SCALE_ROWS
        scales = tl.load(matrix.scales + block)
        total *= _both_scales(input_scales, scales, form)
    return total if form.IS_BY_ROWS else tl.trans(total)


@triton.jit
def _row_scales(x, row, is_row, form):
    """The scales of rows, if each has one."""
    if form.NUM_PARTS:
        part = tl.arange(0, form.BLOCK_PARTS)[None, :]
        exists = is_row[:, None] & (part < form.NUM_PARTS)
        largest = tl.load(x.scales + row[:, None] * form.NUM_PARTS + part, mask=exists, other=0)
        return scale_of_row(tl.max(largest, 1), None)
    else:
        return tl.load(x.scales + row, mask=is_row, other=0)


@triton.jit
def _products(x, row, is_row, matrix, first, feature, form, UP: tl.constexpr, GATED: tl.constexpr):
    """The products of rows with an expert's features, float32 [rows, features]; if GATED, also of
    the features that lie UP behind them."""
    ROW_LEN: tl.constexpr = form.ROW_LEN
    NUM_GROUPS: tl.constexpr = (ROW_LEN + form.GROUP - 1) // form.GROUP
    rows_at = (x.numbers + row * ROW_LEN)[:, None]
    scales_at = x.scales + row * NUM_GROUPS
    if form.IS_BY_ROWS:
        total = tl.zeros((row.shape[0], feature.shape[0]), tl.float32)
    else:
        total = tl.zeros((feature.shape[0], row.shape[0]), tl.float32)
    total_up = total
    if form.HAS_BLOCKS:
        scales = tl.load(scales_at, mask=is_row, other=0)
    else:
        scales = _row_scales(x, row, is_row, form)
    for start in range(0, ROW_LEN, form.BLOCK_IN):
        column = (start + tl.arange(0, form.BLOCK_IN))[None, :]
        is_there = is_row[:, None]
        if ROW_LEN % form.BLOCK_IN:
            is_there &= column < ROW_LEN
        inputs = tl.load(rows_at + column, mask=is_there, other=0.0)
        if form.NUM_PARTS:
            inputs = rounded(inputs.to(tl.float32), scales[:, None]).to(tl.float8e4nv)
        if form.HAS_BLOCKS:
            scales = tl.load(scales_at + start // form.GROUP, mask=is_row, other=0)
        total = _add(total, matrix, feature, first, inputs, scales, start, form)
        if GATED:
            total_up = _add(total_up, matrix, feature + UP, first + UP, inputs, scales, start, form)
    total = _finished(total, matrix, feature, first, scales, form)
    if GATED:
        total_up = _finished(total_up, matrix, feature + UP, first + UP, scales, form)
    return total, total_up


@triton.jit
def _with_bias(
    total, total_up, bias, expert, feature, NUM_OUTPUTS: tl.constexpr, GATED: tl.constexpr
):
    """The products plus the bias of an expert's features."""
    if bias is not None:
        of_expert = bias + expert * (2 * NUM_OUTPUTS if GATED else NUM_OUTPUTS)
        total += tl.load(of_expert + feature).to(tl.float32)[None, :]
        if GATED:
            total_up += tl.load(of_expert + NUM_OUTPUTS + feature).to(tl.float32)[None, :]
    return total, total_up


@triton.jit
def _store_rounded(values, sink, row, feature, exists, is_row, NUM_OUTPUTS: tl.constexpr):
    """Store values [rows, features] of the model's dtype: as they are, with the largest of each
    row, or rounded to float8 with the scale of each row."""
    number, num_programs = tl.program_id(0), tl.num_programs(0)
    numbers = tl.where(exists[None, :], values, 0.0).to(tl.float32)
    each = row * num_programs + number
    if sink.largest is not None:
        tl.store(sink.largest + each, tl.max(tl.abs(numbers), 1), mask=is_row)
    if sink.scales is not None:
        if sink.static_scale is not None:
            scale = tl.zeros((row.shape[0],), tl.float32) + tl.load(sink.static_scale)
            tl.store(sink.scales + row, scale, mask=is_row & (number == 0))
        else:
            scale = scale_of_row(tl.max(tl.abs(numbers), 1), None)
            tl.store(sink.scales + each, scale, mask=is_row)
        numbers = rounded(numbers, scale[:, None])
    at = sink.numbers + row[:, None] * NUM_OUTPUTS + feature[None, :]
    stored = numbers.to(sink.numbers.dtype.element_ty)
    tl.store(at, stored, mask=is_row[:, None] & exists[None, :])


@triton.jit(do_not_specialize=["num_tokens"])
def float8_experts_kernel(
    x,
    matrices,
    sink,
    weights,
    blocks,
    form,
    num_tokens,
    NUM_OUTPUTS: tl.constexpr,
    K: tl.constexpr,
    GATED: tl.constexpr,
    ALPHA: tl.constexpr,
    LIMIT: tl.constexpr,
    DTYPE: tl.constexpr,
    BLOCK_ROWS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_OUT: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Some features of ROWS of the BLOCK_ROWS pairs of a block. GATED: x has a row per token, and
    the second half of the features is multiplied with the activated first half; else a row per
    pair, whose product is weighted."""
    await_results(OVERLAP)
    PARTS: tl.constexpr = BLOCK_ROWS // ROWS
    block, part = tl.program_id(1) // PARTS, tl.program_id(1) % PARTS
    size = tl.load(blocks.sizes + block, mask=block < tl.load(blocks.num), other=0)
    if part * ROWS < size:
        expert = tl.load(blocks.experts + block).to(tl.int64)
        place = part * ROWS + tl.arange(0, ROWS)
        is_row = place < size
        pair = tl.load(blocks.pairs + block * BLOCK_ROWS + place, mask=is_row, other=0)
        first = tl.program_id(0) * BLOCK_OUT
        feature = first + tl.arange(0, BLOCK_OUT)
        exists = feature < NUM_OUTPUTS
        source = tl.where(exists, feature, 0)
        matrix = RowPointers(
            matrices.numbers + expert * matrices.numbers_stride,
            matrices.scales + expert * matrices.scales_stride,
        )
        row = (pair // K if GATED else pair).to(tl.int64)
        total, total_up = _products(x, row, is_row, matrix, first, source, form, NUM_OUTPUTS, GATED)
        total, total_up = _with_bias(
            total, total_up, matrices.bias, expert, source, NUM_OUTPUTS, GATED
        )
        if GATED:
            inner = gated(total, total_up, ALPHA, LIMIT).to(DTYPE)
            _store_rounded(inner, sink, pair.to(tl.int64), feature, exists, is_row, NUM_OUTPUTS)
        else:
            total = total * tl.load(weights + pair, mask=is_row, other=0)[:, None]
            row = (pair % K * num_tokens + pair // K).to(tl.int64)
            at = sink.numbers + row[:, None] * NUM_OUTPUTS + feature[None, :]
            tl.store(at, total, mask=is_row[:, None] & exists[None, :])
