"""Owns the Triton kernels for weights of 4 bits: `int4_linear_kernel` multiplies with them,
`dequantize_kernel` converts them to floats.

A product of few rows takes as long as reading the packed weights, if the programs can convert them
to floats fast enough: with 2 to 3 instructions per weight. So numbers become floats by bit
operations on pairs of words, in the registers that the tensor cores read. The products of a plane
are integers times the input, and are scaled once for all columns of the plane.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl
from triton.language.extra import cuda

from specguide.kernels.triton.device import await_results, prefetch
from specguide.kernels.triton.linear import with_bias


class Int4Pointers(NamedTuple):
    """Pointers to the tensors of an Int4Matrix.

    tile_len, group_len: strides between the words of tiles, and between the scales of groups
    """

    words: Any
    scales: Any
    zeros: Any
    tile_len: Any
    group_len: Any


@triton.jit
def _plane(words, factor, offset, like, UNPACK: tl.constexpr, PLANE: tl.constexpr):
    """The numbers of a plane times `factor` plus `offset`, of the dtype that `like` points to.
    factor: in units of what UNPACK makes of a number, if not None"""
    if UNPACK is None:
        numbers = ((words >> 4 * PLANE) & 15).to(tl.float32)
        floats = (numbers * factor + offset).to(like.dtype.element_ty)
    else:
        floats = tl.inline_asm_elementwise(
            UNPACK[PLANE],
            "=r,r,r,r",
            [words, factor.to(like.dtype.element_ty), offset.to(like.dtype.element_ty)],
            dtype=like.dtype.element_ty,
            is_pure=True,
            pack=2,
        )
    return floats


@triton.jit
def _of_planes(values, tile, feature, row_len, WIDTH, LAST: tl.constexpr, GROUP):
    """The values of the groups of a tile's four planes for some features. LAST: the last group"""
    start = tile * (4 * WIDTH)
    first = tl.load(values + tl.minimum(start // GROUP, LAST) * row_len + feature)
    second = tl.load(values + tl.minimum((start + WIDTH) // GROUP, LAST) * row_len + feature)
    third = tl.load(values + tl.minimum((start + 2 * WIDTH) // GROUP, LAST) * row_len + feature)
    fourth = tl.load(values + tl.minimum((start + 3 * WIDTH) // GROUP, LAST) * row_len + feature)
    return (first, second, third, fourth)


@triton.jit
def _scales_of_planes(matrix, tile, feature, WIDTH, LAST: tl.constexpr, GROUP):
    return _of_planes(matrix.scales, tile, feature, matrix.group_len, WIDTH, LAST, GROUP)


@triton.jit
def _zeros_of_planes(matrix, scale, tile, feature, WIDTH, LAST: tl.constexpr, GROUP):
    """The zeros of a tile's planes, shaped like their scales; the scales themselves if there are no
    zeros."""
    zero = scale
    if matrix.zeros is not None:
        zero = _of_planes(matrix.zeros, tile, feature, matrix.group_len, WIDTH, LAST, GROUP)
    return zero


@triton.jit
def _load_inputs(inputs_at, is_row, column, IN_FEATURES: tl.constexpr, TILE: tl.constexpr):
    """Some columns of the rows, [columns, rows]."""
    is_input = is_row[None, :]
    if IN_FEATURES % TILE != 0:
        is_input &= (column < IN_FEATURES)[:, None]
    return tl.load(inputs_at + column[:, None], mask=is_input, other=0)


@triton.jit
def _add_product(
    total,
    packed,
    scale,
    zero,
    inputs,
    like,
    HAS_ZEROS: tl.constexpr,
    UNPACK,
    FORM: tl.constexpr,
    FOLDED: tl.constexpr,
    PLANE: tl.constexpr,
):
    """total + UNIT · scale · (numbers - zero) · inputs of one plane, float32 [features, rows].
    FOLDED: the numbers are scaled, and rounded, before they are multiplied; scaling and unpacking
    are one step if that rounds no more than the scaling alone"""
    UNIT: tl.constexpr = FORM[0]
    FACTOR: tl.constexpr = FORM[1][PLANE]
    BASE: tl.constexpr = FORM[2][PLANE]
    AT_ONCE: tl.constexpr = FOLDED and not HAS_ZEROS and BASE == 0
    if AT_ONCE:
        rounded = scale[PLANE].to(like.dtype.element_ty).to(tl.float32)
        factor, offset = rounded * FACTOR, rounded * (-8.0 * UNIT)
    else:
        factor = tl.full((packed.shape[0],), FACTOR, tl.float32)
        if HAS_ZEROS:
            offset = -BASE - zero[PLANE].to(tl.float32) * UNIT
        else:
            offset = tl.full((packed.shape[0],), -BASE - 8.0 * UNIT, tl.float32)
    weights = _plane(packed, factor[:, None], offset[:, None], like, UNPACK, PLANE)
    if FOLDED:
        if not AT_ONCE:
            weights = weights * scale[PLANE].to(weights.dtype)[:, None]
        total = tl.dot(weights, inputs, total, input_precision="ieee")
    else:
        products = tl.dot(weights, inputs, input_precision="ieee")
        total += products * scale[PLANE].to(tl.float32)[:, None]
    return total


@triton.jit
def _prefetch_weights(
    matrix, first_tile, source, WIDTH: tl.constexpr, GROUP: tl.constexpr, LAST: tl.constexpr
):
    """Prefetch a program's first words of each feature `source`, and the scales and zeros of its
    first 32 groups (or all), one line of scales at a time."""
    first = matrix.words + first_tile * matrix.tile_len.to(tl.int64) + source[:, None] * WIDTH
    prefetch(first + tl.arange(0, 2)[None, :] * (WIDTH // 2))
    group = tl.minimum(first_tile * (4 * WIDTH) // GROUP + tl.arange(0, 32), LAST)[:, None]
    line = tl.min(source) + tl.arange(0, source.shape[0] // 32)[None, :] * 32
    place = group * matrix.group_len + tl.minimum(line, tl.max(source))
    prefetch(matrix.scales + place)
    if matrix.zeros is not None:
        prefetch(matrix.zeros + place)


class InputBlock(NamedTuple):
    """The rows and features that a program multiplies: pointers to the first columns of the rows,
    [1, rows], and the features [outputs] among num_outputs."""

    inputs_at: Any
    is_row: Any
    feature: Any
    num_outputs: Any


@triton.jit
def int4_products(
    block,
    matrix,
    first_tile,
    num_tiles,
    IN_FEATURES: tl.constexpr,
    GROUP: tl.constexpr,
    WIDTH: tl.constexpr,
    GATED: tl.constexpr,
    UNPACK: tl.constexpr,
    FORM: tl.constexpr,
    STEP: tl.constexpr,
    FOLDED: tl.constexpr,
):
    """Sums over some tiles, float32 [features, rows]; if GATED, also of the second half of the
    features. STEP: words of a feature that are read at a time

    The compiler prefetches the words and inputs of a step some steps before. Scales are too few for
    that, so they are loaded here one step before. Zeros are not: if they came from the step before,
    the compiler would send all weights through shared memory on the way to the tensor cores.
    """
    LAST: tl.constexpr = (IN_FEATURES - 1) // GROUP
    HAS_ZEROS: tl.constexpr = matrix.zeros is not None
    inputs_at, is_row, feature, num_outputs = block
    within = tl.arange(0, STEP)
    words = matrix.words + feature[:, None] * WIDTH + within[None, :]
    up = feature + num_outputs
    up_words = words + num_outputs * WIDTH
    total = tl.zeros((feature.shape[0], is_row.shape[0]), tl.float32)
    total_up = total
    scale = _scales_of_planes(matrix, first_tile, feature, WIDTH, LAST, GROUP)
    up_scale = scale
    if GATED:
        up_scale = _scales_of_planes(matrix, first_tile, up, WIDTH, LAST, GROUP)
    STEPS: tl.constexpr = WIDTH // STEP
    for step in range(num_tiles * STEPS):
        tile, first = first_tile + step // STEPS, step * STEP - step // STEPS * WIDTH
        place = tile.to(tl.int64) * matrix.tile_len + first
        packed = tl.load(words + place)
        then = tile if FOLDED else first_tile + (step + 1) // STEPS
        next_scale = _scales_of_planes(matrix, then, feature, WIDTH, LAST, GROUP)
        zero = _zeros_of_planes(matrix, scale, tile, feature, WIDTH, LAST, GROUP)
        up_packed, next_up_scale, up_zero = packed, next_scale, zero
        if GATED:
            up_packed = tl.load(up_words + place)
            next_up_scale = _scales_of_planes(matrix, then, up, WIDTH, LAST, GROUP)
            up_zero = _zeros_of_planes(matrix, up_scale, tile, up, WIDTH, LAST, GROUP)
        if FOLDED:
            scale, up_scale = next_scale, next_up_scale
        for plane in tl.static_range(4):
            column = tile * (4 * WIDTH) + plane * WIDTH + first + within
            inputs = _load_inputs(inputs_at, is_row, column, IN_FEATURES, 4 * WIDTH)
            total = _add_product(
                *(total, packed, scale, zero, inputs, inputs_at),
                *(HAS_ZEROS, UNPACK, FORM, FOLDED, plane),
            )
            if GATED:
                total_up = _add_product(
                    *(total_up, up_packed, up_scale, up_zero, inputs, inputs_at),
                    *(HAS_ZEROS, UNPACK, FORM, FOLDED, plane),
                )
        scale, up_scale = next_scale, next_up_scale
    UNIT: tl.constexpr = FORM[0]
    return total * (1.0 / UNIT), total_up * (1.0 / UNIT)


@triton.jit
def _await_inputs(
    matrix, first_tile, source, num_outputs, GATED, WIDTH: tl.constexpr, GROUP, LAST: tl.constexpr
):
    """Prefetch weights into the cache while the kernels before still run."""
    cuda.gdc_launch_dependents()
    _prefetch_weights(matrix, first_tile, source, WIDTH, GROUP, LAST)
    if GATED:
        _prefetch_weights(matrix, first_tile, source + num_outputs, WIDTH, GROUP, LAST)
    cuda.gdc_wait()


@triton.jit(do_not_specialize=["num_rows"])
def int4_linear_kernel(
    x,
    matrix,
    bias,
    output,
    num_rows,
    num_outputs,
    x_stride,
    IN_FEATURES: tl.constexpr,
    GROUP: tl.constexpr,
    WIDTH: tl.constexpr,
    GATED: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_OUT: tl.constexpr,
    NUM_SPLITS: tl.constexpr,
    UNPACK: tl.constexpr,
    FORM: tl.constexpr,
    STEP: tl.constexpr,
    FOLDED: tl.constexpr,
    PAIRED: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Multiply some rows and features. GATED: the second half of the features is multiplied with
    the activated first half. PAIRED: the same, with gates and ups in one product of the program"""
    NUM_OUT: tl.constexpr = BLOCK_OUT // 2 if PAIRED else BLOCK_OUT
    feature = tl.program_id(1) * NUM_OUT + tl.arange(0, NUM_OUT)
    exists = feature < num_outputs
    within = tl.arange(0, BLOCK_OUT)
    source = tl.program_id(1) * NUM_OUT + within % NUM_OUT
    source = tl.where(source < num_outputs, source, 0) + within // NUM_OUT * num_outputs
    split = tl.program_id(2)
    share = tl.cdiv(tl.cdiv(IN_FEATURES, 4 * WIDTH), NUM_SPLITS)
    if OVERLAP:
        LAST: tl.constexpr = (IN_FEATURES - 1) // GROUP
        _await_inputs(matrix, split * share, source, num_outputs, GATED, WIDTH, GROUP, LAST)
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inputs_at = x + row[None, :].to(tl.int64) * x_stride
    block = InputBlock(inputs_at, row < num_rows, source, num_outputs)
    total, total_up = int4_products(
        *(block, matrix, split * share, share),
        *(IN_FEATURES, GROUP, WIDTH, GATED, UNPACK, FORM, STEP, FOLDED),
    )
    total, total_up = with_bias(total, total_up, bias, split, source, num_outputs, GATED)
    if PAIRED:
        pairs = tl.permute(tl.reshape(total, (2, NUM_OUT, ROWS)), (1, 2, 0))
        total, total_up = tl.split(pairs)
    if GATED or PAIRED:
        total = total / (1.0 + tl.exp(-total)) * total_up
    sink = output + (split * num_rows + row[None, :]).to(tl.int64) * num_outputs + feature[:, None]
    tl.store(sink, total, mask=exists[:, None] & (row < num_rows)[None, :])


@triton.jit
def dequantize_kernel(
    words,
    scales,
    zeros,
    output,
    num_outputs,
    tile_len,
    group_len,
    IN_FEATURES: tl.constexpr,
    GROUP: tl.constexpr,
    WIDTH: tl.constexpr,
    BLOCK_OUT: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Write some features of the columns of a tile; see `Int4Matrix.dequantized`."""
    await_results(OVERLAP)
    tile = tl.program_id(0)
    feature = tl.program_id(1) * BLOCK_OUT + tl.arange(0, BLOCK_OUT)
    exists = feature < num_outputs
    source = tl.where(exists, feature, 0)
    within = tl.arange(0, WIDTH)
    packed = tl.load(
        words + tile.to(tl.int64) * tile_len + source[:, None] * WIDTH + within[None, :]
    ).to(tl.int32)
    sink = output + source[:, None].to(tl.int64) * IN_FEATURES + within[None, :]
    for plane in tl.static_range(4):
        start = (tile * 4 + plane) * WIDTH
        group = tl.minimum(start // GROUP, (IN_FEATURES - 1) // GROUP) * group_len
        zero = tl.full((BLOCK_OUT,), 8.0, tl.float32)
        if zeros is not None:
            zero = tl.load(zeros + group + source).to(tl.float32)
        scale = tl.load(scales + group + source).to(tl.float32)
        numbers = ((packed >> 4 * plane) & 15).to(tl.float32)
        is_column = (start + within < IN_FEATURES)[None, :]
        tl.store(
            sink + start,
            (numbers - zero[:, None]) * scale[:, None],
            mask=exists[:, None] & is_column,
        )
