"""Owns the Triton masked_argmax: one pass over the logits, split over programs where rows are few."""

# mypy: allow-untyped-defs

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from specguide.kernels.triton_bitmask import load_row, load_tile
from specguide.kernels.triton_device import num_multiprocessors

_NONE: tl.constexpr = tl.constexpr(2**31 - 1)


@triton.jit
def row_max(values, columns):
    """The greatest of [rows, words, 32] along the last two dimensions, and the least column that has it."""
    best = tl.max(tl.max(values, 2), 1)
    columns = tl.where(values == best[:, None, None], columns, _NONE)
    return best, tl.min(tl.min(columns, 2), 1)


@triton.jit
def only_token(bitmask, words_offset, num_words, BLOCK: tl.constexpr):
    """The token that a row allows where it allows exactly one, else -1. words_offset: [rows, 1]."""
    num_nonzero, num_crowded, token = (words_offset * 0).to(tl.int32), (words_offset * 0).to(tl.int32), (
        words_offset * 0).to(tl.int32)
    for start in range(0, num_words, BLOCK):
        index = start + tl.arange(0, BLOCK)[None, :]
        word = tl.load(bitmask + words_offset + index, mask=index < num_words, other=0).to(tl.uint32, bitcast=True)
        # Binary digits of the bit's place, read off the word; they mean something where it has one bit.
        place = ((word & 0xAAAAAAAA) != 0).to(tl.int32) + ((word & 0xCCCCCCCC) != 0).to(tl.int32) * 2
        place += ((word & 0xF0F0F0F0) != 0).to(tl.int32) * 4 + ((word & 0xFF00FF00) != 0).to(tl.int32) * 8
        place += ((word & 0xFFFF0000) != 0).to(tl.int32) * 16
        num_nonzero += tl.sum((word != 0).to(tl.int32), 1)[:, None]
        num_crowded += tl.sum((word & (word - 1) != 0).to(tl.int32), 1)[:, None]
        token += tl.sum(tl.where(word != 0, index * 32 + place, 0), 1)[:, None]
    return tl.where((num_nonzero == 1) & (num_crowded == 0), token, -1)


@triton.jit
def _finish(best, at, reached, output, row, bitmask, target_ids, words_offset,
            exists, num_words):
    """From each row's best column to its token; all [rows]."""
    token = at
    found = best > float("-inf")
    if target_ids is not None:
        token = tl.load(target_ids + at, mask=found, other=-1).to(tl.int32)
    token = tl.where(found, token, -1)
    if target_ids is not None:  # noqa: SIM102 (the first is known when compiling)
        if tl.min(reached) == 0:
            only = only_token(bitmask, words_offset[:, None], num_words, 1024)
            token = tl.where(reached != 0, token, tl.max(only, 1))
    tl.store(output + row, token, mask=exists)


@triton.jit
def _argmax_kernel(
    logits, bitmask, guided, row_ids, target_ids, output, bests, ats,
    reacheds, num_rows, vocab_size, num_words, logits_stride, bitmask_stride,
    row_ids_stride, share, ROWS: tl.constexpr, WORDS: tl.constexpr, NUM_SPLITS: tl.constexpr,
    KEEP_PARTS: tl.constexpr,
):
    """Some rows' best over `share` columns: the token itself where that is all of them, else a part of it."""
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    split = tl.program_id(1)
    row3 = row[:, None, None]
    words_offset, is_guided, exists = load_row(row3, num_rows, guided, row_ids, row_ids_stride, bitmask_stride)
    best = tl.full((ROWS, WORDS, 32), float("-inf"), tl.float32)
    at = tl.full((ROWS, WORDS, 32), 0, tl.int32)
    reached = tl.full((ROWS, WORDS, 32), 0, tl.int32)
    for start in range(split * share, tl.minimum((split + 1) * share, vocab_size), WORDS * 32):
        values, allowed = load_tile(logits, bitmask, target_ids, start, vocab_size,
                                    row3.to(tl.int64) * logits_stride, words_offset, is_guided, exists, WORDS)
        is_better = (allowed != 0) & (values > best)  # never so for a NaN
        best = tl.where(is_better, values, best)
        at = tl.where(is_better, start, at)
        if target_ids is not None:
            reached = reached | allowed
    column = tl.arange(0, WORDS)[None, :, None] * 32 + tl.arange(0, 32)[None, None, :]
    at = tl.where(best > float("-inf"), at + column, _NONE)
    best1, at1 = row_max(best, at)
    reached1 = tl.max(tl.max((reached != 0).to(tl.int32), 2), 1)
    exists1 = row < num_rows
    if KEEP_PARTS:
        part = row * NUM_SPLITS + split
        tl.store(bests + part, best1, mask=exists1)
        tl.store(ats + part, at1, mask=exists1)
        tl.store(reacheds + part, reached1, mask=exists1)
    else:
        words_offset1 = tl.max(tl.max(words_offset, 2), 1)
        _finish(best1, at1, reached1 | (exists1 == 0).to(tl.int32), output, row, bitmask, target_ids, words_offset1,
                exists1, num_words)


@triton.jit
def _combine_kernel(
    bitmask, row_ids, target_ids, output, bests, ats, reacheds, num_words,
    bitmask_stride, row_ids_stride, NUM_SPLITS: tl.constexpr, BLOCK: tl.constexpr,
):
    row = tl.program_id(0) + tl.arange(0, 1)
    split = tl.arange(0, BLOCK)[None, :]
    part, exists = row[:, None] * NUM_SPLITS + split, split < NUM_SPLITS
    best = tl.load(bests + part, mask=exists, other=float("-inf"))
    at = tl.load(ats + part, mask=exists, other=_NONE)
    reached = tl.max(tl.load(reacheds + part, mask=exists, other=0), 1)
    best1, at1 = row_max(best[:, :, None], at[:, :, None])
    words_offset = tl.load(row_ids + row * row_ids_stride).to(tl.int64) * bitmask_stride
    _finish(best1, at1, reached, output, row, bitmask, target_ids, words_offset, row >= 0, num_words)


@dataclass(frozen=True)
class Launch:
    """The shape of a launch: rows and words a tile, programs a row, columns a program."""

    rows: int
    words: int
    num_splits: int
    share: int
    num_warps: int


@dataclass(frozen=True)
class Parts:
    """What each split found in each row, [n, num_splits]: float32 best logit, int32 its column, int32 any allowed."""

    best: Tensor
    at: Tensor
    reached: Tensor


def masked_argmax(logits: Tensor, bitmask: Tensor, guided: Tensor, row_ids: Tensor, target_ids: Tensor | None = None
                  ) -> Tensor:
    """See reference.masked_argmax."""
    num_rows = logits.shape[0]
    launch = choose_launch(num_rows, logits.shape[1], logits.device, pruned=target_ids is not None)
    output = torch.empty(num_rows, dtype=torch.int32, device=logits.device)
    parts = launch_argmax(logits, bitmask, guided, row_ids, target_ids, launch, output)
    if parts is not None:
        _combine_kernel[(num_rows,)](
            bitmask, row_ids, target_ids, output, parts.best, parts.at, parts.reached, bitmask.shape[1],
            bitmask.stride(0), row_ids.stride(0), NUM_SPLITS=launch.num_splits,
            BLOCK=triton.next_power_of_2(launch.num_splits), num_warps=1)
    return output


def launch_argmax(logits: Tensor, bitmask: Tensor, guided: Tensor, row_ids: Tensor, target_ids: Tensor | None,
                  launch: Launch, output: Tensor | None) -> Parts | None:
    """Each split's part; None where there is one split and `output`, int32 [n], is given and filled."""
    num_rows, vocab_size = logits.shape
    parts = None
    if launch.num_splits > 1 or output is None:
        shape = (num_rows, launch.num_splits)
        parts = Parts(*(torch.empty(shape, dtype=dtype, device=logits.device)
                        for dtype in (torch.float32, torch.int32, torch.int32)))
    bests, ats, reacheds = (parts.best, parts.at, parts.reached) if parts is not None else (None, None, None)
    _argmax_kernel[(triton.cdiv(num_rows, launch.rows), launch.num_splits)](
        logits, bitmask, guided.view(torch.uint8), row_ids, target_ids, output, bests, ats, reacheds, num_rows,
        vocab_size, bitmask.shape[1], logits.stride(0), bitmask.stride(0), row_ids.stride(0), launch.share,
        ROWS=launch.rows, WORDS=launch.words, NUM_SPLITS=launch.num_splits, KEEP_PARTS=parts is not None,
        num_warps=launch.num_warps)
    return parts


def choose_launch(num_rows: int, vocab_size: int, device: torch.device, *, pruned: bool) -> Launch:
    """From shapes alone. A draft row's ids are as many bytes as its logits, so rows share a load of them."""
    num_programs = 4 * num_multiprocessors(device)
    rows = 4 if pruned and num_rows >= num_programs else 1
    words = 64 // rows
    num_tiles = triton.cdiv(vocab_size, 32 * words)
    num_splits = min(num_tiles, max(1, num_programs // triton.cdiv(num_rows, rows)), 64) if num_rows else 1
    share = triton.cdiv(num_tiles, num_splits) * words * 32
    return Launch(rows, words, triton.cdiv(vocab_size, share), share, num_warps=4)
