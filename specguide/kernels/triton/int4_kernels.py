"""Owns the Triton kernels of weights of 4 bits: `int4_linear_kernel` multiplies with them,
`dequantize_kernel` makes floats of them.

A product of few rows takes as long as reading the packed weights does, if the programs have the
time to make floats of them: 2 to 3 instructions a weight. So the numbers become floats by bit
operations on pairs of words, right where the tensor cores take their operand from; the products of
a plane are whole numbers times the input, and are scaled once for all columns of the plane.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra import cuda

from specguide.kernels.triton.device import await_results, prefetch


@triton.jit
def _plane(words, offset, like, UNPACK: tl.constexpr, PLANE: tl.constexpr):
    """The numbers of a plane plus `offset`, of the dtype that `like` points to."""
    if UNPACK is None:
        numbers = ((words >> 4 * PLANE) & 15).to(tl.float32)
        return (numbers + offset).to(like.dtype.element_ty)
    return tl.inline_asm_elementwise(
        UNPACK[PLANE],
        "=r,r,r",
        [words, offset.to(like.dtype.element_ty)],
        dtype=like.dtype.element_ty,
        is_pure=True,
        pack=2,
    )


@triton.jit
def _of_planes(values, tile, feature, row_len, WIDTH, LAST: tl.constexpr, GROUP):
    """What the groups of a tile's four planes have for some features. LAST: of the groups"""
    start = tile * (4 * WIDTH)
    first = tl.load(values + tl.minimum(start // GROUP, LAST) * row_len + feature)
    second = tl.load(values + tl.minimum((start + WIDTH) // GROUP, LAST) * row_len + feature)
    third = tl.load(values + tl.minimum((start + 2 * WIDTH) // GROUP, LAST) * row_len + feature)
    fourth = tl.load(values + tl.minimum((start + 3 * WIDTH) // GROUP, LAST) * row_len + feature)
    return (first, second, third, fourth)


@triton.jit
def _scaled_product(
    packed, inputs, scale, zero, like, HAS_ZEROS, UNPACK, MAGIC, PLANE: tl.constexpr
):
    """Of one plane: scale · (numbers - zero) · inputs, float32 [features, rows]."""
    if HAS_ZEROS:
        offset = -MAGIC - zero.to(tl.float32)
    else:
        offset = tl.full((packed.shape[0],), -MAGIC - 8.0, tl.float32)
    weights = _plane(packed, offset[:, None], like, UNPACK, PLANE)
    return tl.dot(weights, inputs) * scale.to(tl.float32)[:, None]


@triton.jit(do_not_specialize=["num_rows"])
def int4_linear_kernel(
    x,
    words,
    scales,
    zeros,
    bias,
    output,
    num_rows,
    num_outputs,
    x_stride,
    tile_len,
    group_len,
    IN_FEATURES: tl.constexpr,
    GROUP: tl.constexpr,
    WIDTH: tl.constexpr,
    GATED: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK_OUT: tl.constexpr,
    NUM_SPLITS: tl.constexpr,
    UNPACK: tl.constexpr,
    MAGIC: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Some features of some rows. GATED: the second half of the features is multiplied with the
    activated first half.

    tile_len, group_len: from a tile's words, and a group's scales, to those of the next
    """
    feature = tl.program_id(1) * BLOCK_OUT + tl.arange(0, BLOCK_OUT)
    exists = feature < num_outputs
    source = tl.where(exists, feature, 0)
    split = tl.program_id(2)
    SHARE: tl.constexpr = tl.cdiv(tl.cdiv(IN_FEATURES, 4 * WIDTH), NUM_SPLITS)
    LAST: tl.constexpr = (IN_FEATURES - 1) // GROUP
    within = tl.arange(0, WIDTH)
    up = source + num_outputs
    word = words + source[:, None] * WIDTH + within[None, :]
    if OVERLAP:
        cuda.gdc_launch_dependents()
        line = tl.arange(0, 2)[None, :] * (WIDTH // 2)
        lines = words + split * SHARE * tile_len.to(tl.int64) + source[:, None] * WIDTH + line
        prefetch(lines)
        if GATED:
            prefetch(lines + num_outputs * WIDTH)
        cuda.gdc_wait()
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros((BLOCK_OUT, ROWS), tl.float32)
    total_up = total
    for step in range(SHARE):
        tile = split * SHARE + step
        tile_words = word + tile.to(tl.int64) * tile_len
        packed = tl.load(tile_words)
        scale = _of_planes(scales, tile, source, group_len, WIDTH, LAST, GROUP)
        zero = scale
        if zeros is not None:
            zero = _of_planes(zeros, tile, source, group_len, WIDTH, LAST, GROUP)
        if GATED:
            up_packed = tl.load(tile_words + num_outputs * WIDTH)
            up_scale = _of_planes(scales, tile, up, group_len, WIDTH, LAST, GROUP)
            up_zero = up_scale
            if zeros is not None:
                up_zero = _of_planes(zeros, tile, up, group_len, WIDTH, LAST, GROUP)
        for plane in tl.static_range(4):
            column = tile * (4 * WIDTH) + plane * WIDTH + within
            is_input = (row < num_rows)[None, :]
            if IN_FEATURES % (4 * WIDTH) != 0:
                is_input &= (column < IN_FEATURES)[:, None]
            inputs = tl.load(
                x + row[None, :].to(tl.int64) * x_stride + column[:, None], mask=is_input, other=0
            )
            total += _scaled_product(
                packed,
                inputs,
                scale[plane],
                zero[plane],
                x,
                zeros is not None,
                UNPACK,
                MAGIC,
                plane,
            )
            if GATED:
                total_up += _scaled_product(
                    up_packed,
                    inputs,
                    up_scale[plane],
                    up_zero[plane],
                    x,
                    zeros is not None,
                    UNPACK,
                    MAGIC,
                    plane,
                )
    if bias is not None:
        total += tl.where(split == 0, tl.load(bias + source).to(tl.float32), 0.0)[:, None]
        if GATED:
            total_up += tl.load(bias + num_outputs + source).to(tl.float32)[:, None]
    if GATED:
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
    """Some features in the columns of a tile, as `Int4Matrix.dequantized` has them."""
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
