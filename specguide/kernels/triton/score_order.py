"""Owns the order of scores in the kernels of draft trees, and the choice of the greatest scores."""

# mypy: allow-untyped-defs

from __future__ import annotations

import triton
import triton.language as tl

LEAST = tl.constexpr(-(2**31))


@triton.jit
def in_order(score):
    """Integers in the same order as the scores, all of them above LEAST."""
    bits = score.to(tl.int32, bitcast=True)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


@triton.jit
def chosen(key, exists, NUM: tl.constexpr):
    """Which candidates have the NUM greatest keys; among equals the first ones."""
    # the greatest threshold that so many keys reach, found bit by bit
    least = tl.sum(tl.zeros_like(key), 0).to(tl.int64) + LEAST
    for bit in range(32):
        higher = least + (tl.full((), 1, tl.int64) << (31 - bit))
        num = tl.sum((exists & (key.to(tl.int64) >= higher)).to(tl.int32), 0)
        least = tl.where(num >= NUM, higher, least)
    is_above, is_equal = exists & (key.to(tl.int64) > least), exists & (key.to(tl.int64) == least)
    num_wanted = NUM - tl.sum(is_above.to(tl.int32), 0)
    return is_above | (is_equal & (tl.cumsum(is_equal.to(tl.int32), 0) <= num_wanted))
