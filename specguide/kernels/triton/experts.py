"""Owns the Triton products of experts: of a block of pairs with some features of its expert.

Few tokens are computed in the time that it takes to read the matrices of the experts in use; the
others are not read. A block has at most so many rows that its expert's matrix, read by several
blocks, comes from the L2 cache. Weights of 8 and 4 bits become numbers of the inputs' dtype in
registers. Each pair writes a place of its own, and who adds up the k parts of a token does it in
their order: outputs are the same in every run.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from specguide.kernels.experts import ExpertBlocks, ExpertMatrices, GateLimits, Routing
from specguide.kernels.triton.device import await_results, num_multiprocessors, overlap

_FEW_ROWS = 32
_MOST_FLOAT32_PARTS = 64
"""Tokens whose parts are kept in float32 until they are summed."""


@dataclass(frozen=True)
class Tile:
    """block_out: features of a program; block_in: columns of a step."""

    block_out: int
    block_in: int
    num_warps: int
    num_stages: int


@triton.jit
def _fp4_numbers(code):
    """Of four bits each, E2M1: as float16 it has the same fields, 14 exponents lower."""
    bits = ((code & 8) << 12) | ((code & 7) << 9)
    return bits.to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32) * 16384.0


@triton.jit
def _fp4_scales(scales, feature, start, GROUPS_A_ROW: tl.constexpr, GROUPS: tl.constexpr):
    """Of the features' next columns, [features, GROUPS · 16]: one for each byte."""
    group = (start // 32 + tl.arange(0, GROUPS))[None, :]
    source = scales + feature[:, None] * GROUPS_A_ROW + group
    exponent = tl.load(source, mask=group < GROUPS_A_ROW, other=0).to(tl.int32)
    scale = (exponent << 23).to(tl.float32, bitcast=True)
    wide = tl.broadcast_to(scale[:, :, None], (feature.shape[0], GROUPS, 16))
    return tl.reshape(wide, (feature.shape[0], GROUPS * 16))


@triton.jit
def _load_inputs(
    inputs_at, is_row, start, ROW_LEN: tl.constexpr, BLOCK_IN: tl.constexpr, IS_FP4: tl.constexpr
):
    """Some columns of the rows, [columns, rows]; for weights of four bits, of which a byte holds
    two, the even ones and the odd ones apart."""
    EACH: tl.constexpr = 2 if IS_FP4 else 1
    column = start + EACH * tl.arange(0, BLOCK_IN // EACH)[:, None]
    is_input = is_row[None, :] & (column < ROW_LEN)
    inputs = tl.load(inputs_at + column, mask=is_input, other=0)
    odd = inputs
    if IS_FP4:
        odd = tl.load(inputs_at + column + 1, mask=is_input, other=0)
    return inputs, odd


@triton.jit
def _add_fp4(
    total,
    values,
    scales,
    feature,
    even,
    odd,
    start,
    ROW_LEN: tl.constexpr,
    BLOCK_IN: tl.constexpr,
):
    """total + weights · inputs, for some columns of a matrix of four bits."""
    byte = (start // 2 + tl.arange(0, BLOCK_IN // 2))[None, :]
    source = values + feature[:, None] * (ROW_LEN // 2) + byte
    codes = tl.load(source, mask=byte < ROW_LEN // 2, other=0).to(tl.int32)
    scale = _fp4_scales(scales, feature, start, ROW_LEN // 32, BLOCK_IN // 32)
    low = (_fp4_numbers(codes & 15) * scale).to(even.dtype)
    high = (_fp4_numbers(codes >> 4) * scale).to(odd.dtype)
    total = tl.dot(low, even, total, input_precision="ieee")
    return tl.dot(high, odd, total, input_precision="ieee")


@triton.jit
def _add(
    total,
    values,
    scales,
    feature,
    inputs,
    start,
    ROW_LEN: tl.constexpr,
    BLOCK_IN: tl.constexpr,
    SCALE_ROWS: tl.constexpr,
    SCALE_COLUMNS: tl.constexpr,
):
    """The same of a matrix whose numbers have a scale for each block of SCALE_ROWS ×
    SCALE_COLUMNS, or none."""
    column = (start + tl.arange(0, BLOCK_IN))[None, :]
    source = values + feature[:, None] * ROW_LEN + column
    weights = tl.load(source, mask=column < ROW_LEN, other=0.0)
    if scales is None:
        return tl.dot(weights, inputs, total, input_precision="ieee")
    else:
        block = feature // SCALE_ROWS * ((ROW_LEN + SCALE_COLUMNS - 1) // SCALE_COLUMNS)
        scale = tl.load(scales + block + start // SCALE_COLUMNS)
        product = tl.dot(weights.to(inputs.dtype), inputs, input_precision="ieee")
        return total + product * scale[:, None]


@triton.jit
def _step(
    total,
    values,
    scales,
    feature,
    inputs,
    odd,
    start,
    ROW_LEN: tl.constexpr,
    BLOCK_IN: tl.constexpr,
    IS_FP4: tl.constexpr,
    SCALE_ROWS: tl.constexpr,
    SCALE_COLUMNS: tl.constexpr,
):
    """The same of any matrix."""
    if IS_FP4:
        return _add_fp4(total, values, scales, feature, inputs, odd, start, ROW_LEN, BLOCK_IN)
    else:
        return _add(
            total,
            values,
            scales,
            feature,
            inputs,
            start,
            ROW_LEN,
            BLOCK_IN,
            SCALE_ROWS,
            SCALE_COLUMNS,
        )


@triton.jit
def _gated(gates, ups, ALPHA: tl.constexpr, LIMIT: tl.constexpr):
    """ALPHA: None: silu(gates) · ups."""
    if ALPHA is None:
        return gates / (1.0 + tl.exp(-gates)) * ups
    else:
        # a NaN stays one, which a minimum would hide
        gates = tl.where(gates > LIMIT, LIMIT, gates)
        ups = tl.where(ups > LIMIT, LIMIT, tl.where(ups < -LIMIT, -LIMIT, ups))
        return gates / (1.0 + tl.exp(-ALPHA * gates)) * (ups + 1.0)


@triton.jit(do_not_specialize=["num_tokens"])
def _experts_kernel(
    x,
    values,
    scales,
    bias,
    output,
    weights,
    pairs,
    block_experts,
    block_sizes,
    num_blocks,
    num_tokens,
    x_stride,
    expert_stride,
    scales_stride,
    NUM_OUTPUTS: tl.constexpr,
    ROW_LEN: tl.constexpr,
    K: tl.constexpr,
    GATED: tl.constexpr,
    ALPHA: tl.constexpr,
    LIMIT: tl.constexpr,
    IS_FP4: tl.constexpr,
    SCALE_ROWS: tl.constexpr,
    SCALE_COLUMNS: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_OUT: tl.constexpr,
    BLOCK_IN: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Some features of the pairs of a block. GATED: x has a row for each token, and the second half
    of the features is multiplied with the activated first half; else a row for each pair, whose
    product is weighted."""
    await_results(OVERLAP)
    block = tl.program_id(1)
    if block < tl.load(num_blocks):
        expert = tl.load(block_experts + block).to(tl.int64)
        row = tl.arange(0, ROWS)
        is_row = row < tl.load(block_sizes + block)
        pair = tl.load(pairs + block * ROWS + row, mask=is_row, other=0)
        source_row = pair // K if GATED else pair
        inputs_at = x + source_row.to(tl.int64)[None, :] * x_stride
        feature = tl.program_id(0) * BLOCK_OUT + tl.arange(0, BLOCK_OUT)
        exists = feature < NUM_OUTPUTS
        source = tl.where(exists, feature, 0)
        values += expert * expert_stride
        if scales is not None:
            scales += expert * scales_stride
        total = tl.zeros((BLOCK_OUT, ROWS), tl.float32)
        total_up = total
        for start in range(0, ROW_LEN, BLOCK_IN):
            inputs, odd = _load_inputs(inputs_at, is_row, start, ROW_LEN, BLOCK_IN, IS_FP4)
            total = _step(
                total,
                values,
                scales,
                source,
                inputs,
                odd,
                start,
                ROW_LEN,
                BLOCK_IN,
                IS_FP4,
                SCALE_ROWS,
                SCALE_COLUMNS,
            )
            if GATED:
                total_up = _step(
                    total_up,
                    values,
                    scales,
                    source + NUM_OUTPUTS,
                    inputs,
                    odd,
                    start,
                    ROW_LEN,
                    BLOCK_IN,
                    IS_FP4,
                    SCALE_ROWS,
                    SCALE_COLUMNS,
                )
        if bias is not None:
            bias += expert * (2 * NUM_OUTPUTS if GATED else NUM_OUTPUTS)
            total += tl.load(bias + source).to(tl.float32)[:, None]
            if GATED:
                total_up += tl.load(bias + NUM_OUTPUTS + source).to(tl.float32)[:, None]
        if GATED:
            total = _gated(total, total_up, ALPHA, LIMIT)
            sink = pair
        else:
            total *= tl.load(weights + pair, mask=is_row, other=0)[None, :]
            sink = pair % K * num_tokens + pair // K
        sink = output + sink.to(tl.int64)[None, :] * NUM_OUTPUTS + feature[:, None]
        tl.store(sink, total, mask=exists[:, None] & is_row[None, :])


def gated_experts(
    x: Tensor, matrices: ExpertMatrices, routing: Routing, limits: GateLimits | None = None
) -> Tensor:
    """See experts.gated_experts."""
    num_outputs = matrices.out_features // 2
    output = torch.empty(routing.weights.numel(), num_outputs, dtype=x.dtype, device=x.device)
    _launch(x, matrices, routing, output, is_gated=True, limits=limits)
    return output


def expert_parts(inner: Tensor, matrices: ExpertMatrices, routing: Routing) -> Tensor:
    """See experts.expert_parts."""
    num_tokens, num_chosen = routing.weights.shape
    dtype = torch.float32 if num_tokens <= _MOST_FLOAT32_PARTS else inner.dtype
    shape = (num_chosen, num_tokens, matrices.out_features)
    output = torch.empty(shape, dtype=dtype, device=inner.device)
    _launch(inner, matrices, routing, output, is_gated=False)
    return output


def choose_tile(
    matrices: ExpertMatrices, blocks: ExpertBlocks, num_pairs: int, *, is_gated: bool
) -> Tile:
    """From shapes alone."""
    num_outputs = matrices.out_features // (2 if is_gated else 1)
    block_in = _block_in(matrices)
    if blocks.rows > _FEW_ROWS:
        return Tile(64 if is_gated else 128, max(16, block_in // 2), num_warps=8, num_stages=3)
    num_programs = min(num_pairs, matrices.num_experts) * triton.cdiv(num_outputs, 64)
    is_idle = num_programs < 2 * num_multiprocessors(matrices.device)
    block_out = 32 if is_gated and is_idle else 64
    return Tile(block_out, block_in, num_warps=4, num_stages=3 if is_gated else 4)


def _block_in(matrices: ExpertMatrices) -> int:
    """Columns of a step: 128 bytes or more of each feature, which share a scale, of 8 bits."""
    if matrices.is_mxfp4:
        return 128
    columns = matrices.block[1]
    if matrices.scales is None or columns >= matrices.in_features:
        return 128
    return math.gcd(columns, 128)


def _launch(
    x: Tensor,
    matrices: ExpertMatrices,
    routing: Routing,
    output: Tensor,
    *,
    is_gated: bool,
    limits: GateLimits | None = None,
) -> None:
    """Fill `output` with a row for each pair."""
    blocks = routing.blocks
    assert blocks is not None
    num_outputs = matrices.out_features // (2 if is_gated else 1)
    tile = choose_tile(matrices, blocks, routing.weights.numel(), is_gated=is_gated)
    _experts_kernel[(triton.cdiv(num_outputs, tile.block_out), len(blocks.experts))](
        x,
        matrices.values,
        matrices.scales,
        matrices.bias,
        output,
        routing.weights,
        blocks.pairs,
        blocks.experts,
        blocks.sizes,
        blocks.num,
        len(routing.weights),
        x.stride(0),
        matrices.values.stride(0),
        0 if matrices.scales is None else matrices.scales.stride(0),
        NUM_OUTPUTS=num_outputs,
        ROW_LEN=matrices.in_features,
        K=routing.weights.shape[1],
        GATED=is_gated,
        ALPHA=None if limits is None else limits.alpha,
        LIMIT=None if limits is None else limits.limit,
        IS_FP4=matrices.is_mxfp4,
        SCALE_ROWS=matrices.block[0],
        SCALE_COLUMNS=matrices.block[1],
        ROWS=blocks.rows,
        BLOCK_OUT=tile.block_out,
        BLOCK_IN=tile.block_in,
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
        **overlap(x.device),
    )
