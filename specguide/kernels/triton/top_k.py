"""Owns the Triton masked_top_k: the columns of a row are split over programs, whose likeliest are
then put together."""

# mypy: allow-untyped-defs

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from specguide.kernels.bitmask_rows import BitmaskRows
from specguide.kernels.triton.argmax_kernels import only_token
from specguide.kernels.triton.bitmask import RowArguments

_BLOCK = 2048


@triton.jit
def _store_best(values, columns, value_to, column_to, K: tl.constexpr):
    """The K greatest of `values` with what `columns` has in their places, greatest first, -1 for
    those at -inf."""
    for place in tl.static_range(K):
        best = tl.max(values, 0)
        at = tl.min(tl.where(values == best, columns, 2**31 - 1), 0)
        exists = best > float("-inf")
        tl.store(value_to + place, best)
        tl.store(column_to + place, tl.where(exists, at, -1))
        values = tl.where(columns == at, float("-inf"), values)


@triton.jit
def _top_k_kernel(
    logits,
    bitmask,
    guided,
    row_ids,
    target_ids,
    values_out,
    columns_out,
    bests,
    totals,
    reacheds,
    vocab_size,
    logits_stride,
    bitmask_stride,
    row_ids_stride,
    K: tl.constexpr,
    BLOCK: tl.constexpr,
    NUM_SPLITS: tl.constexpr,
):
    """A row's likeliest of one block of columns, and the sum of exponentials there."""
    row, split = tl.program_id(0).to(tl.int64), tl.program_id(1)
    column = split * BLOCK + tl.arange(0, BLOCK)
    exists = column < vocab_size
    token = column
    if target_ids is not None:
        token = tl.load(target_ids + column, mask=exists, other=0).to(tl.int32)
    allowed = exists
    if bitmask is not None:
        mask_row = tl.load(row_ids + row * row_ids_stride).to(tl.int64)
        is_guided = tl.load(guided + mask_row) != 0
        words = bitmask + mask_row * bitmask_stride
        word = tl.load(words + (token >> 5), mask=exists & is_guided, other=-1)
        allowed = exists & (((word >> (token & 31)) & 1) != 0)
    value = tl.load(logits + row * logits_stride + column, mask=allowed, other=float("-inf")).to(
        tl.float32
    )
    value = tl.where(value == value, value, float("-inf"))
    best = tl.max(value, 0)
    shift = tl.where(tl.abs(best) == float("inf"), 0.0, best)
    part = row * NUM_SPLITS + split
    tl.store(bests + part, best)
    tl.store(totals + part, tl.sum(tl.exp(tl.minimum(value - shift, 88.0)), 0))
    tl.store(reacheds + part, tl.max(allowed.to(tl.int32), 0))
    _store_best(value, column, values_out + part * K, columns_out + part * K, K)


@triton.jit
def _log_total(bests, totals, NUM_SPLITS: tl.constexpr, BLOCK_SPLITS: tl.constexpr):
    """A row's greatest logit, and the logarithm of its sum of exponentials, from its parts."""
    split = tl.arange(0, BLOCK_SPLITS)
    best = tl.load(bests + split, mask=split < NUM_SPLITS, other=float("-inf"))
    total = tl.load(totals + split, mask=split < NUM_SPLITS, other=0.0)
    greatest = tl.max(best, 0)
    shift = tl.where(tl.abs(greatest) == float("inf"), 0.0, greatest)
    scale = tl.exp(tl.where(best == greatest, 0.0, best - shift))
    scale = tl.where(best > float("-inf"), scale, 0.0)
    return greatest, shift + tl.log(tl.sum(total * scale, 0))


@triton.jit
def _logprob(logit, greatest, log_total):
    """Beside an infinite logit all others are nothing."""
    finite = tl.where(greatest == float("inf"), float("-inf"), logit - log_total)
    return tl.where(logit == float("inf"), 0.0, finite)


@triton.jit
def _store_only(tokens, logprobs, words, num_words):
    """Of a row that allows no token of the vocabulary: the one that it allows at all."""
    only = only_token(words, num_words, 1024)
    first = tl.arange(0, 1)
    tl.store(tokens + first, only)
    tl.store(logprobs + first, tl.where(only >= 0, 0.0, float("-inf")))


@triton.jit
def _combine_kernel(
    bitmask,
    row_ids,
    target_ids,
    values_in,
    columns_in,
    bests,
    totals,
    reacheds,
    tokens,
    logprobs,
    num_words,
    bitmask_stride,
    row_ids_stride,
    K: tl.constexpr,
    NUM_SPLITS: tl.constexpr,
    BLOCK_SPLITS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One row's likeliest from those of its blocks."""
    row = tl.program_id(0).to(tl.int64)
    part, tokens, logprobs = row * NUM_SPLITS, tokens + row * K, logprobs + row * K
    greatest, log_total = _log_total(bests + part, totals + part, NUM_SPLITS, BLOCK_SPLITS)
    index = tl.arange(0, BLOCK)
    is_place = index < NUM_SPLITS * K
    value = tl.load(values_in + part * K + index, mask=is_place, other=float("-inf"))
    column = tl.load(columns_in + part * K + index, mask=is_place, other=-1)
    for place in tl.static_range(K):
        top = tl.max(value, 0)
        at = tl.min(tl.where(value == top, column, 2**31 - 1), 0)
        is_any = top > float("-inf")
        token = tl.where(is_any, at, -1)
        if target_ids is not None:
            token = tl.load(target_ids + at, mask=is_any, other=-1).to(tl.int32)
        logprob = _logprob(top, greatest, log_total)
        tl.store(tokens + place, token)
        tl.store(logprobs + place, tl.where(is_any, logprob, float("-inf")))
        value = tl.where(column == at, float("-inf"), value)
    if bitmask is not None and target_ids is not None:
        split = tl.arange(0, BLOCK_SPLITS)
        reached = tl.load(reacheds + part + split, mask=split < NUM_SPLITS, other=0)
        if tl.max(reached, 0) == 0:
            mask_row = tl.load(row_ids + row * row_ids_stride + tl.arange(0, 1)).to(tl.int64)
            _store_only(tokens, logprobs, bitmask + mask_row * bitmask_stride, num_words)


def masked_top_k(
    logits: Tensor,
    rows: BitmaskRows | None,
    target_ids: Tensor | None,
    k: int,
) -> tuple[Tensor, Tensor]:
    """See reference.masked_top_k."""
    num_rows, vocab_size = logits.shape
    num_splits = triton.cdiv(vocab_size, _BLOCK)
    masks = RowArguments.of(rows)

    def empty(dtype: torch.dtype, *shape: int) -> Tensor:
        return torch.empty(num_rows, *shape, dtype=dtype, device=logits.device)

    values, columns = empty(torch.float32, num_splits, k), empty(torch.int32, num_splits, k)
    bests, totals, reacheds = (
        empty(torch.float32, num_splits),
        empty(torch.float32, num_splits),
        empty(torch.int32, num_splits),
    )
    tokens, logprobs = empty(torch.int32, k), empty(torch.float32, k)
    if num_rows == 0:
        return tokens, logprobs
    _top_k_kernel[(num_rows, num_splits)](
        logits,
        masks.bitmask,
        masks.guided,
        masks.ids,
        target_ids,
        values,
        columns,
        bests,
        totals,
        reacheds,
        vocab_size,
        logits.stride(0),
        masks.bitmask_stride,
        masks.ids_stride,
        K=k,
        BLOCK=_BLOCK,
        NUM_SPLITS=num_splits,
        num_warps=8,
    )
    _combine_kernel[(num_rows,)](
        masks.bitmask,
        masks.ids,
        target_ids,
        values,
        columns,
        bests,
        totals,
        reacheds,
        tokens,
        logprobs,
        masks.num_words,
        masks.bitmask_stride,
        masks.ids_stride,
        K=k,
        NUM_SPLITS=num_splits,
        BLOCK_SPLITS=triton.next_power_of_2(num_splits),
        BLOCK=triton.next_power_of_2(num_splits * k),
        num_warps=4,
    )
    return tokens, logprobs
