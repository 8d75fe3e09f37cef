"""Owns the Triton kernel of the products of experts: a program multiplies a block of pairs with
some features of its expert.

Weights of 4 bits are converted to the inputs' dtype in registers.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl

from specguide.kernels.triton.device import await_results
from specguide.kernels.triton.int4_kernels import InputBlock, Int4Pointers, int4_products
from specguide.kernels.triton.mxfp4_kernels import add_fp4


class MatrixPointers(NamedTuple):
    """Pointers to the tensors of ExpertMatrices, and the strides between experts."""

    numbers: Any
    scales: Any
    bias: Any
    numbers_stride: Any
    scales_stride: Any


class Int4ExpertPointers(NamedTuple):
    """Pointers to the tensors of Int4Experts, and the strides between experts, between tiles and
    between groups."""

    words: Any
    scales: Any
    zeros: Any
    bias: Any
    words_stride: Any
    scales_stride: Any
    tile_len: Any
    group_len: Any


class Int4Form(NamedTuple):
    """Constants of 4-bit integers: row length, columns that share a scale, columns of a plane."""

    ROW_LEN: Any
    GROUP: Any
    WIDTH: Any


class BlockPointers(NamedTuple):
    """Pointers to the tensors of ExpertBlocks."""

    pairs: Any
    experts: Any
    sizes: Any
    num: Any


class MatrixForm(NamedTuple):
    """Constants of a matrix: row length, columns per step, and whether its numbers have 4 bits."""

    ROW_LEN: Any
    BLOCK_IN: Any
    IS_FP4: Any


@triton.jit
def _load_inputs(
    inputs_at, is_row, start, ROW_LEN: tl.constexpr, BLOCK_IN: tl.constexpr, IS_FP4: tl.constexpr
):
    """Some columns of the rows, [columns, rows]; for 4-bit weights, of which a byte holds two, the
    even and the odd columns separately."""
    EACH: tl.constexpr = 2 if IS_FP4 else 1
    column = start + EACH * tl.arange(0, BLOCK_IN // EACH)[:, None]
    is_input = is_row[None, :] & (column < ROW_LEN)
    inputs = tl.load(inputs_at + column, mask=is_input, other=0)
    odd = inputs
    if IS_FP4:
        odd = tl.load(inputs_at + column + 1, mask=is_input, other=0)
    return inputs, odd


@triton.jit
def _add(total, values, feature, inputs, start, ROW_LEN: tl.constexpr, BLOCK_IN: tl.constexpr):
    """The total plus the products of some columns, for a matrix without scales."""
    column = (start + tl.arange(0, BLOCK_IN))[None, :]
    source = values + feature[:, None] * ROW_LEN + column
    weights = tl.load(source, mask=column < ROW_LEN, other=0.0)
    return tl.dot(weights.to(inputs.dtype), inputs, total, input_precision="ieee")


@triton.jit
def _step(total, values, scales, feature, inputs, odd, start, form):
    """The total plus the products of the columns of one step, for any matrix."""
    ROW_LEN: tl.constexpr = form.ROW_LEN
    BLOCK_IN: tl.constexpr = form.BLOCK_IN
    if form.IS_FP4:
        return add_fp4(total, values, scales, feature, inputs, odd, start, ROW_LEN, BLOCK_IN)
    else:
        return _add(total, values, feature, inputs, start, ROW_LEN, BLOCK_IN)


@triton.jit
def gated(gates, ups, ALPHA: tl.constexpr, LIMIT: tl.constexpr):
    """The gated activation, see GateLimits. ALPHA: None: silu(gates) · ups"""
    if ALPHA is None:
        return gates / (1.0 + tl.exp(-gates)) * ups
    elif LIMIT is None:
        return gates / (1.0 + tl.exp(-ALPHA * (gates + 0.044715 * gates * gates * gates))) * ups
    else:
        # NaN stays NaN; a minimum would hide it
        gates = tl.where(gates > LIMIT, LIMIT, gates)
        ups = tl.where(ups > LIMIT, LIMIT, tl.where(ups < -LIMIT, -LIMIT, ups))
        return gates / (1.0 + tl.exp(-ALPHA * gates)) * (ups + 1.0)


@triton.jit
def _products(
    inputs_at,
    is_row,
    matrices,
    expert,
    feature,
    form,
    NUM_OUTPUTS: tl.constexpr,
    GATED: tl.constexpr,
):
    """The products of an expert's features with the rows, float32 [features, rows]; if GATED, also
    of the features in the second half."""
    values = matrices.numbers + expert * matrices.numbers_stride
    scales = matrices.scales
    if scales is not None:
        scales += expert * matrices.scales_stride
    total = tl.zeros((feature.shape[0], is_row.shape[0]), tl.float32)
    total_up = total
    for start in range(0, form.ROW_LEN, form.BLOCK_IN):
        inputs, odd = _load_inputs(
            inputs_at, is_row, start, form.ROW_LEN, form.BLOCK_IN, form.IS_FP4
        )
        total = _step(total, values, scales, feature, inputs, odd, start, form)
        if GATED:
            up = feature + NUM_OUTPUTS
            total_up = _step(total_up, values, scales, up, inputs, odd, start, form)
    return total, total_up


@triton.jit
def _int4_products(
    inputs_at,
    is_row,
    matrices,
    expert,
    feature,
    form,
    NUM_OUTPUTS: tl.constexpr,
    GATED: tl.constexpr,
    UNPACK: tl.constexpr,
    FORM: tl.constexpr,
):
    """Like `_products`, for 4-bit integers."""
    zeros = matrices.zeros
    if zeros is not None:
        zeros += expert * matrices.scales_stride
    matrix = Int4Pointers(
        matrices.words + expert * matrices.words_stride,
        matrices.scales + expert * matrices.scales_stride,
        zeros,
        matrices.tile_len,
        matrices.group_len,
    )
    block = InputBlock(inputs_at, is_row, feature, NUM_OUTPUTS)
    first = tl.full((), 0, tl.int32)
    num_tiles: tl.constexpr = (form.ROW_LEN + 4 * form.WIDTH - 1) // (4 * form.WIDTH)
    return int4_products(
        block,
        matrix,
        first,
        num_tiles,
        form.ROW_LEN,
        form.GROUP,
        form.WIDTH,
        GATED,
        UNPACK,
        FORM,
        form.WIDTH,
        False,
    )


@triton.jit
def _with_bias(
    total, total_up, bias, expert, feature, NUM_OUTPUTS: tl.constexpr, GATED: tl.constexpr
):
    """The products plus the bias of an expert's features."""
    if bias is not None:
        of_expert = bias + expert * (2 * NUM_OUTPUTS if GATED else NUM_OUTPUTS)
        total += tl.load(of_expert + feature).to(tl.float32)[:, None]
        if GATED:
            total_up += tl.load(of_expert + NUM_OUTPUTS + feature).to(tl.float32)[:, None]
    return total, total_up


@triton.jit(do_not_specialize=["num_tokens"])
def experts_kernel(
    x,
    matrices,
    output,
    weights,
    blocks,
    form,
    num_tokens,
    x_stride,
    NUM_OUTPUTS: tl.constexpr,
    K: tl.constexpr,
    GATED: tl.constexpr,
    ALPHA: tl.constexpr,
    LIMIT: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_OUT: tl.constexpr,
    IS_INT4: tl.constexpr,
    UNPACK: tl.constexpr,
    FORM: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Some features of the pairs of a block. GATED: x has a row per token, and the second half of
    the features is multiplied with the activated first half; else a row per pair, whose product is
    weighted."""
    await_results(OVERLAP)
    block = tl.program_id(1)
    if block < tl.load(blocks.num):
        expert = tl.load(blocks.experts + block).to(tl.int64)
        row = tl.arange(0, ROWS)
        is_row = row < tl.load(blocks.sizes + block)
        pair = tl.load(blocks.pairs + block * ROWS + row, mask=is_row, other=0)
        inputs_at = x + (pair // K if GATED else pair).to(tl.int64)[None, :] * x_stride
        feature = tl.program_id(0) * BLOCK_OUT + tl.arange(0, BLOCK_OUT)
        exists = feature < NUM_OUTPUTS
        source = tl.where(exists, feature, 0)
        if IS_INT4:
            total, total_up = _int4_products(
                inputs_at,
                is_row,
                matrices,
                expert,
                source,
                form,
                NUM_OUTPUTS,
                GATED,
                UNPACK,
                FORM,
            )
        else:
            total, total_up = _products(
                inputs_at, is_row, matrices, expert, source, form, NUM_OUTPUTS, GATED
            )
        total, total_up = _with_bias(
            total, total_up, matrices.bias, expert, source, NUM_OUTPUTS, GATED
        )
        if GATED:
            total, sink = gated(total, total_up, ALPHA, LIMIT), pair
        else:
            total = total * tl.load(weights + pair, mask=is_row, other=0)[None, :]
            sink = pair % K * num_tokens + pair // K
        sink = output + sink.to(tl.int64)[None, :] * NUM_OUTPUTS + feature[:, None]
        tl.store(sink, total, mask=exists[:, None] & is_row[None, :])
