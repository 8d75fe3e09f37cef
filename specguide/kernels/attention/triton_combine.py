"""Owns how attention is combined whose keys were split: a weighted mean of the parts (Dao et al.
2023, "Flash-Decoding"), rounded in the same kernel if a float8 product reads it."""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from specguide.kernels.float8 import Float8Rows, Float8Scaling
from specguide.kernels.triton.device import Order, await_results, overlap
from specguide.kernels.triton.float8 import Float8Scales, empty_rows, rounded, scale_of_row

_MOST_ROUNDED, _MOST_NUMBERS = 4, 1 << 14
"""Maximum splits, and maximum numbers of a token, that one program combines and rounds."""


class Parts(NamedTuple):
    """Pointers to each row's attention, and to the logarithm of its sum of exponentials; the latter
    is None if keys are not split."""

    output: Any
    log_sums: Any


@triton.jit(do_not_specialize=["num_splits"])
def _combine_kernel(
    parts,
    log_sums,
    output,
    num_splits,
    HEAD_DIM: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
    BLOCK_SPLITS: tl.constexpr,
    ORDER: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """One head of one token: the mean of its parts, each weighted by its sum of exponentials."""
    await_results(OVERLAP, ORDER)
    row = tl.program_id(0).to(tl.int64)
    split, dim = tl.arange(0, BLOCK_SPLITS), tl.arange(0, BLOCK_DIM)
    log_sum = tl.load(
        log_sums + row * num_splits + split, mask=split < num_splits, other=float("-inf")
    )
    best = tl.max(log_sum, 0)
    weight = tl.exp2(log_sum - tl.where(best == float("-inf"), 0.0, best))
    # A NaN part must be read, so that the row becomes NaN; only parts that were never written are
    # left out.
    mask = (log_sum != float("-inf"))[:, None] & (dim < HEAD_DIM)[None, :]
    part = tl.load(
        parts + (row * num_splits + split)[:, None] * HEAD_DIM + dim[None, :], mask=mask, other=0
    )
    total = tl.sum(weight, 0)
    mixed = tl.sum(part * weight[:, None], 0) / tl.where(total == 0, 1.0, total)
    tl.store(output + row * HEAD_DIM + dim, mixed, mask=dim < HEAD_DIM)


@triton.jit
def _combine_and_round_kernel(
    parts,
    like,
    output,
    float8,
    NUM_SPLITS: tl.constexpr,
    NUM_HEADS: tl.constexpr,
    HEAD_DIM: tl.constexpr,
    BLOCK_HEADS: tl.constexpr,
    BLOCK_DIM: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """All heads of one token, in the dtype that `like` points to, rounded."""
    await_results(OVERLAP)
    token = tl.program_id(0).to(tl.int64)
    head, dim = tl.arange(0, BLOCK_HEADS), tl.arange(0, BLOCK_DIM)[None, :]
    is_head = head < NUM_HEADS
    exists = is_head[:, None] & (dim < HEAD_DIM)
    row = token * NUM_HEADS + head
    best = tl.full((BLOCK_HEADS,), float("-inf"), tl.float32)
    for split in tl.static_range(NUM_SPLITS):
        sums = tl.load(parts.log_sums + row * NUM_SPLITS + split, mask=is_head, other=0)
        best = tl.maximum(best, sums)
    best = tl.where(best == float("-inf"), 0.0, best)
    total = tl.full((BLOCK_HEADS,), 0, tl.float32)
    mixed = tl.full((BLOCK_HEADS, BLOCK_DIM), 0, tl.float32)
    for split in tl.static_range(NUM_SPLITS):
        part_id = row * NUM_SPLITS + split
        sums = tl.load(parts.log_sums + part_id, mask=is_head, other=0)
        weight = tl.exp2(sums - best)
        # Loaded at once, without waiting to know whether it was written.
        part = tl.load(parts.output + part_id[:, None] * HEAD_DIM + dim, mask=exists, other=0)
        part = tl.where((sums == float("-inf"))[:, None], 0.0, part)
        total += weight
        mixed += part * weight[:, None]
    mixed = mixed / tl.where(total == 0, 1.0, total)[:, None]
    numbers = mixed.to(like.dtype.element_ty).to(tl.float32)
    scale = scale_of_row(tl.max(tl.max(tl.abs(numbers), 1), 0), float8.static_scale)
    sink = output + row[:, None] * HEAD_DIM + dim
    tl.store(sink, rounded(numbers, scale).to(output.dtype.element_ty), mask=exists)
    tl.store(float8.scales + token, scale)


def empty_parts(query: Tensor, value_dim: int, num_splits: int) -> Parts:
    """Uninitialised parts: attention [T, num_heads, num_splits, value_dim], and sums [T, num_heads,
    num_splits]."""
    num_tokens, num_heads, _ = query.shape
    shape = num_tokens, num_heads, num_splits
    output = torch.empty(*shape, value_dim, dtype=torch.float32, device=query.device)
    return Parts(output, torch.empty(shape, dtype=torch.float32, device=query.device))


def combine(parts: Parts, output: Tensor, order: Order) -> None:
    """Write the attention of all splits, put together, to `output`."""
    num_tokens, num_heads, num_splits, head_dim = parts.output.shape
    block_splits = triton.next_power_of_2(num_splits)
    block_dim = max(16, triton.next_power_of_2(head_dim))
    _combine_kernel[(num_tokens * num_heads,)](
        parts.output,
        parts.log_sums,
        output,
        num_splits,
        HEAD_DIM=head_dim,
        BLOCK_DIM=block_dim,
        BLOCK_SPLITS=block_splits,
        ORDER=int(order),
        num_warps=min(8, max(1, block_splits * block_dim // 2048)),
        **overlap(output.device),
    )


def can_round(parts: Parts, rounding: Float8Scaling) -> bool:
    """Whether one program can hold all parts of a token."""
    _, num_heads, num_splits, head_dim = parts.output.shape
    num_numbers = triton.next_power_of_2(num_heads) * triton.next_power_of_2(head_dim)
    is_small = num_splits <= _MOST_ROUNDED and num_numbers <= _MOST_NUMBERS
    return is_small and not rounding.is_grouped


def combine_and_round(parts: Parts, like: Tensor, rounding: Float8Scaling) -> Float8Rows:
    """The attention of all splits, combined in like's dtype and then rounded: [T, num_heads ·
    head_dim]."""
    num_tokens, num_heads, num_splits, head_dim = parts.output.shape
    rows = empty_rows(num_tokens, num_heads * head_dim, rounding, like.device)
    block_heads, block_dim = map(triton.next_power_of_2, (num_heads, head_dim))
    _combine_and_round_kernel[(num_tokens,)](
        parts,
        like,
        rows.values,
        Float8Scales(rows.scale, rounding.static_scale),
        NUM_SPLITS=num_splits,
        NUM_HEADS=num_heads,
        HEAD_DIM=head_dim,
        BLOCK_HEADS=block_heads,
        BLOCK_DIM=block_dim,
        num_warps=min(32, max(1, block_heads * block_dim // 128)),
        **overlap(like.device),
    )
    return rows
