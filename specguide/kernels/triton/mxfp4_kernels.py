"""Owns the Triton products with matrices of 4-bit numbers, every 32 of which share a scale (OCP
Microscaling Formats 1.0: E2M1 with exponents of two)."""

# mypy: allow-untyped-defs

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _fp4_numbers(code):
    """The numbers of 4-bit codes, E2M1. As float16 they have the same fields, with an exponent that
    is 14 lower."""
    bits = ((code & 8) << 12) | ((code & 7) << 9)
    return bits.to(tl.int16).to(tl.float16, bitcast=True).to(tl.float32) * 16384.0


@triton.jit
def _fp4_scales(scales, feature, start, GROUPS_A_ROW: tl.constexpr, GROUPS: tl.constexpr):
    """The scales of the features' next columns, [features, GROUPS · 16]: one per byte."""
    group = (start // 32 + tl.arange(0, GROUPS))[None, :]
    source = scales + feature[:, None] * GROUPS_A_ROW + group
    exponent = tl.load(source, mask=group < GROUPS_A_ROW, other=0).to(tl.int32)
    scale = (exponent << 23).to(tl.float32, bitcast=True)
    wide = tl.broadcast_to(scale[:, :, None], (feature.shape[0], GROUPS, 16))
    return tl.reshape(wide, (feature.shape[0], GROUPS * 16))


@triton.jit
def add_fp4(
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
    """total + weights · inputs, for some columns of a 4-bit matrix."""
    byte = (start // 2 + tl.arange(0, BLOCK_IN // 2))[None, :]
    source = values + feature[:, None] * (ROW_LEN // 2) + byte
    codes = tl.load(source, mask=byte < ROW_LEN // 2, other=0).to(tl.int32)
    scale = _fp4_scales(scales, feature, start, ROW_LEN // 32, BLOCK_IN // 32)
    low = (_fp4_numbers(codes & 15) * scale).to(even.dtype)
    high = (_fp4_numbers(codes >> 4) * scale).to(odd.dtype)
    total = tl.dot(low, even, total, input_precision="ieee")
    return tl.dot(high, odd, total, input_precision="ieee")
