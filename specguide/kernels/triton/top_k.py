"""Owns the Triton masked_top_k: the columns of a row are split over programs, and the best of each
are then combined."""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

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
    """Store the K greatest of `values`, greatest first, and their entries in `columns`; -1 for
    those at -inf."""
    for place in tl.static_range(K):
        best = tl.max(values, 0)
        at = tl.min(tl.where(values == best, columns, 2**31 - 1), 0)
        exists = best > float("-inf")
        tl.store(value_to + place, best)
        tl.store(column_to + place, tl.where(exists, at, -1))
        values = tl.where(columns == at, float("-inf"), values)


class _Parts(NamedTuple):
    """The results of each block of columns for each row.

    logits, columns: float32 and int32 [n, splits, K], the most likely tokens; -inf and -1 where
                     there are fewer
    best, total:     float32 [n, splits], the greatest logit, and the sum of the exponentials of all
                     logits minus it
    reached:         int32 [n, splits], whether any token is allowed
    """

    logits: Any
    columns: Any
    best: Any
    total: Any
    reached: Any


@triton.jit
def _load_allowed(masks, row, token, exists):
    """Which tokens a row allows."""
    allowed = exists
    if masks.bitmask is not None:
        mask_row = tl.load(masks.ids + row * masks.ids_stride).to(tl.int64)
        is_guided = tl.load(masks.guided + mask_row) != 0
        words = masks.bitmask + mask_row * masks.bitmask_stride
        word = tl.load(words + (token >> 5), mask=exists & is_guided, other=-1)
        allowed = exists & (((word >> (token & 31)) & 1) != 0)
    return allowed


@triton.jit
def _top_k_kernel(
    logits,
    masks,
    target_ids,
    parts,
    vocab_size,
    logits_stride,
    K: tl.constexpr,
    BLOCK: tl.constexpr,
    NUM_SPLITS: tl.constexpr,
):
    """Store the most likely tokens of a row in one block of columns, and the sum of exponentials
    there."""
    row, split = tl.program_id(0).to(tl.int64), tl.program_id(1)
    column = split * BLOCK + tl.arange(0, BLOCK)
    exists = column < vocab_size
    token = column
    if target_ids is not None:
        token = tl.load(target_ids + column, mask=exists, other=0).to(tl.int32)
    allowed = _load_allowed(masks, row, token, exists)
    value = tl.load(logits + row * logits_stride + column, mask=allowed, other=float("-inf")).to(
        tl.float32
    )
    value = tl.where(value == value, value, float("-inf"))
    best = tl.max(value, 0)
    shift = tl.where(tl.abs(best) == float("inf"), 0.0, best)
    part = row * NUM_SPLITS + split
    tl.store(parts.best + part, best)
    tl.store(parts.total + part, tl.sum(tl.exp(tl.minimum(value - shift, 88.0)), 0))
    tl.store(parts.reached + part, tl.max(allowed.to(tl.int32), 0))
    _store_best(value, column, parts.logits + part * K, parts.columns + part * K, K)


@triton.jit
def _log_total(bests, totals, NUM_SPLITS: tl.constexpr, BLOCK_SPLITS: tl.constexpr):
    """A row's greatest logit and, from its parts, the logarithm of its sum of exponentials of
    logits minus the greatest one, if that is finite."""
    split = tl.arange(0, BLOCK_SPLITS)
    best = tl.load(bests + split, mask=split < NUM_SPLITS, other=float("-inf"))
    total = tl.load(totals + split, mask=split < NUM_SPLITS, other=0.0)
    greatest = tl.max(best, 0)
    shift = tl.where(tl.abs(greatest) == float("inf"), 0.0, greatest)
    scale = tl.exp(tl.where(best == greatest, 0.0, best - shift))
    scale = tl.where(best > float("-inf"), scale, 0.0)
    return greatest, tl.log(tl.sum(total * scale, 0))


@triton.jit
def _logprob(logit, greatest, log_total):
    """The log-probability of a logit. Beside an infinite logit all others have probability 0. Huge
    logits are subtracted from each other exactly; added to a logarithm they would be rounded."""
    finite = tl.where(greatest == float("inf"), float("-inf"), (logit - greatest) - log_total)
    return tl.where(logit == float("inf"), 0.0, finite)


@triton.jit
def _store_only(tokens, logprobs, words, num_words):
    """Store the only allowed token of a row that allows no token of the draft vocabulary."""
    only = only_token(words, num_words, 1024)
    first = tl.arange(0, 1)
    tl.store(tokens + first, only)
    tl.store(logprobs + first, tl.where(only >= 0, 0.0, float("-inf")))


@triton.jit
def _combine_kernel(
    masks,
    target_ids,
    parts,
    tokens,
    logprobs,
    K: tl.constexpr,
    NUM_SPLITS: tl.constexpr,
    BLOCK_SPLITS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Store the most likely tokens of one row, from those of its blocks."""
    row = tl.program_id(0).to(tl.int64)
    part, tokens, logprobs = row * NUM_SPLITS, tokens + row * K, logprobs + row * K
    greatest, log_total = _log_total(
        parts.best + part, parts.total + part, NUM_SPLITS, BLOCK_SPLITS
    )
    index = tl.arange(0, BLOCK)
    is_place = index < NUM_SPLITS * K
    value = tl.load(parts.logits + part * K + index, mask=is_place, other=float("-inf"))
    column = tl.load(parts.columns + part * K + index, mask=is_place, other=-1)
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
    if masks.bitmask is not None and target_ids is not None:
        split = tl.arange(0, BLOCK_SPLITS)
        reached = tl.load(parts.reached + part + split, mask=split < NUM_SPLITS, other=0)
        if tl.max(reached, 0) == 0:
            mask_row = tl.load(masks.ids + row * masks.ids_stride + tl.arange(0, 1)).to(tl.int64)
            words = masks.bitmask + mask_row * masks.bitmask_stride
            _store_only(tokens, logprobs, words, masks.num_words)


def _empty_parts(num_rows: int, num_splits: int, k: int, device: torch.device) -> _Parts:
    shape = num_rows, num_splits
    return _Parts(
        torch.empty(*shape, k, dtype=torch.float32, device=device),
        torch.empty(*shape, k, dtype=torch.int32, device=device),
        torch.empty(shape, dtype=torch.float32, device=device),
        torch.empty(shape, dtype=torch.float32, device=device),
        torch.empty(shape, dtype=torch.int32, device=device),
    )


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
    parts = _empty_parts(num_rows, num_splits, k, logits.device)
    tokens = torch.empty(num_rows, k, dtype=torch.int32, device=logits.device)
    logprobs = torch.empty(num_rows, k, dtype=torch.float32, device=logits.device)
    if num_rows == 0:
        return tokens, logprobs
    _top_k_kernel[(num_rows, num_splits)](
        logits,
        masks,
        target_ids,
        parts,
        vocab_size,
        logits.stride(0),
        K=k,
        BLOCK=_BLOCK,
        NUM_SPLITS=num_splits,
        num_warps=8,
    )
    _combine_kernel[(num_rows,)](
        masks,
        target_ids,
        parts,
        tokens,
        logprobs,
        K=k,
        NUM_SPLITS=num_splits,
        BLOCK_SPLITS=triton.next_power_of_2(num_splits),
        BLOCK=triton.next_power_of_2(num_splits * k),
        num_warps=4,
    )
    return tokens, logprobs
