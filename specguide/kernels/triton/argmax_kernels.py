"""Owns the Triton kernels of masked_argmax.

Tiles are [lanes, groups, rows]: a group is what a thread loads at once, and its logits are read
only if the row allows any of them. Words are loaded one tile ahead and target ids two, so that a
tile waits for its logits only. Rows that share a program share its load of target ids.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl

_NONE: tl.constexpr = tl.constexpr(2**31 - 1)


class Parts(NamedTuple):
    """What each split found in each row, [n, num_splits]: its best logit, float32, the column of
    that logit, int32, and whether any token is allowed, int32."""

    best: Any
    at: Any
    reached: Any


@triton.jit
def row_max(values, columns):
    """The greatest value of [rows, words, 32] along the last two dimensions, and the lowest column
    with that value."""
    best = tl.max(tl.max(values, 2), 1)
    columns = tl.where(values == best[:, None, None], columns, _NONE)
    return best, tl.min(tl.min(columns, 2), 1)


@triton.jit
def _load_tokens(target_ids, column, end, LANES: tl.constexpr):
    """Target ids [lanes, groups, 1] of groups that begin at the columns; the columns themselves if
    both vocabularies are the same."""
    tokens = column
    if target_ids is not None:
        column += tl.arange(0, LANES)[:, None, None]
        tokens = tl.load(target_ids + column, mask=column < end, other=0).to(tl.int32)
    return tokens


@triton.jit
def _load_words(words, target_ids, tokens, column, end, is_guided, LANES: tl.constexpr):
    """Mask words of the tokens: 0 from the end on, all ones in a free row.

    words: pointers to the first word of each row, [1, 1, rows]; None: all rows are free
    """
    if target_ids is not None:
        column += tl.arange(0, LANES)[:, None, None]
    word = tokens * 0 - 1
    if words is not None:
        word = tl.load(
            words + (tokens >> 5), mask=is_guided & (column < end), other=is_guided.to(tl.int32) - 1
        )
    return word


@triton.jit
def _load_choosable(logits, target_ids, tokens, word, column, end, LANES: tl.constexpr):
    """Logits, float32 [lanes, groups, rows], -inf where forbidden; and whether a group has any
    allowed token, [1, groups, rows].

    logits: pointers to the first logit of each row, [1, 1, rows]
    """
    lane = tl.arange(0, LANES)[:, None, None]
    if target_ids is None:
        word = word >> (tokens & 31)
        is_any = word & ((1 << LANES) - 1) != 0
        sign = word << (31 - lane)
    else:
        sign = word << (31 - (tokens & 31))
        is_any = tl.min(sign, 0, keep_dims=True) < 0
    values = tl.load(
        logits + (column + lane), mask=(column + lane < end) & is_any, other=float("-inf")
    )
    return tl.where(sign < 0, values.to(tl.float32), float("-inf")), is_any


@triton.jit
def only_token(words, num_words, BLOCK: tl.constexpr):
    """The token of a row that allows exactly one, else -1; [rows], as are the pointers `words`."""
    num_nonzero, num_crowded, token = (
        tl.full(words.shape, 0, tl.int32),
        tl.full(words.shape, 0, tl.int32),
        tl.full(words.shape, 0, tl.int32),
    )
    for start in range(0, num_words, BLOCK):
        index = start + tl.arange(0, BLOCK)[None, :]
        word = tl.load(words[:, None] + index, mask=index < num_words, other=0).to(
            tl.uint32, bitcast=True
        )
        # Binary digits of the bit's position, computed from the word; they are valid only if the
        # word has exactly one bit.
        place = ((word & 0xAAAAAAAA) != 0).to(tl.int32) + ((word & 0xCCCCCCCC) != 0).to(
            tl.int32
        ) * 2
        place += ((word & 0xF0F0F0F0) != 0).to(tl.int32) * 4 + ((word & 0xFF00FF00) != 0).to(
            tl.int32
        ) * 8
        place += ((word & 0xFFFF0000) != 0).to(tl.int32) * 16
        num_nonzero += tl.sum((word != 0).to(tl.int32), 1)
        num_crowded += tl.sum((word & (word - 1) != 0).to(tl.int32), 1)
        token += tl.sum(tl.where(word != 0, index * 32 + place, 0), 1)
    return tl.where((num_nonzero == 1) & (num_crowded == 0), token, -1)


@triton.jit
def token_of(best, at, reached, words, target_ids, num_words):
    """The token of each row's best column; all [rows]. reached: 0 where no token of the vocabulary
    is allowed"""
    token = tl.where(best > float("-inf"), at, -1)
    if target_ids is not None:
        token = tl.load(target_ids + token, mask=token >= 0, other=-1).to(tl.int32)
        if words is not None:  # noqa: SIM102 - known when it is compiled, the other is not
            if tl.min(reached) == 0:
                token = tl.where(reached != 0, token, only_token(words, num_words, 1024))
    return token


@triton.jit
def _best_groups(
    logits,
    words,
    target_ids,
    begin,
    end,
    is_guided,
    ROWS: tl.constexpr,
    GROUPS: tl.constexpr,
    LANES: tl.constexpr,
):
    """What each place of a group finds over columns begin … end - 1: three tensors [groups, rows].

    These are its best logit, the column where the group of that logit begins, and, over a draft
    vocabulary, whether any token that it met is allowed.
    logits, words: pointers to the first of each row, [1, 1, rows]
    """
    step = GROUPS * LANES
    group = tl.arange(0, GROUPS)[None, :, None] * LANES
    best = tl.full((GROUPS, ROWS), float("-inf"), tl.float32)
    at = tl.full((GROUPS, ROWS), _NONE, tl.int32)
    reached = tl.full((GROUPS, ROWS), 0, tl.int32)
    tokens = _load_tokens(target_ids, begin + group, end, LANES)
    next_tokens = _load_tokens(target_ids, begin + step + group, end, LANES)
    word = _load_words(words, target_ids, tokens, begin + group, end, is_guided, LANES)
    for start in range(begin, end, step):
        column = start + group
        next_word = _load_words(
            words, target_ids, next_tokens, column + step, end, is_guided, LANES
        )
        third_tokens = _load_tokens(target_ids, column + 2 * step, end, LANES)
        values, is_any = _load_choosable(logits, target_ids, tokens, word, column, end, LANES)
        value = tl.max(values, 0)
        is_better = value > best  # false for a NaN
        best = tl.where(is_better, value, best)
        at = tl.where(is_better, tl.max(column, 0), at)
        if target_ids is not None:
            reached |= tl.max(is_any.to(tl.int32), 0)
        tokens, next_tokens, word = next_tokens, third_tokens, next_word
    return best, at, reached


@triton.jit
def _best_column(logits, words, target_ids, best, at, end, is_guided, LANES: tl.constexpr):
    """Each row's best logit and its column, [rows]. The winning group that _best_groups found is
    read a second time for it."""
    best1 = tl.max(best, 0)
    found = best1 > float("-inf")
    column = tl.where(found, tl.min(tl.where(best == best1[None, :], at, _NONE), 0), 0)[
        None, None, :
    ]
    tokens = _load_tokens(target_ids, column, end, LANES)
    word = _load_words(words, target_ids, tokens, column, end, is_guided, LANES)
    values, _is_any = _load_choosable(logits, target_ids, tokens, word, column, end, LANES)
    column += tl.arange(0, LANES)[:, None, None]
    return best1, tl.min(
        tl.min(tl.where(found & (values == best1[None, None, :]), column, _NONE), 0), 0
    )


@triton.jit(do_not_specialize=["num_rows", "num_splits"])
def argmax_kernel(
    logits,
    masks,
    target_ids,
    output,
    parts,
    num_rows,
    vocab_size,
    logits_stride,
    share,
    num_splits,
    ROWS: tl.constexpr,
    GROUPS: tl.constexpr,
    LANES: tl.constexpr,
):
    """The best of some rows over `share` columns: stored as a part, or, if `parts` is None, as the
    token itself."""
    index = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    # The last program may process the last row more than once.
    row = tl.minimum(index, num_rows - 1).to(tl.int64)
    first_words = None
    words = None
    is_guided = None
    if masks.bitmask is not None:
        mask_row = tl.load(masks.ids + row * masks.ids_stride).to(tl.int64)
        first_words = masks.bitmask + mask_row * masks.bitmask_stride
        words = first_words[None, None, :]
        is_guided = (tl.load(masks.guided + mask_row) != 0)[None, None, :]
    logits += (row * logits_stride)[None, None, :]
    split = tl.program_id(1)
    begin, end = split * share, tl.minimum((split + 1) * share, vocab_size)
    best, at, reached = _best_groups(
        logits, words, target_ids, begin, end, is_guided, ROWS, GROUPS, LANES
    )
    best, at = _best_column(logits, words, target_ids, best, at, end, is_guided, LANES)
    reached = tl.max(reached, 0)
    exists = index < num_rows
    if parts is not None:
        part = row * num_splits + split
        tl.store(parts.best + part, best, mask=exists)
        tl.store(parts.at + part, at, mask=exists)
        tl.store(parts.reached + part, reached, mask=exists)
    else:
        token = token_of(best, at, reached, first_words, target_ids, masks.num_words)
        tl.store(output + row, token, mask=exists)


@triton.jit
def best_of_parts(parts, row, num_splits, BLOCK: tl.constexpr):
    """The best logit of a row, its column, and whether any token is allowed; row and results are
    [1]."""
    split = tl.arange(0, BLOCK)[None, :]
    part, exists = row[:, None] * num_splits + split, split < num_splits
    best = tl.load(parts.best + part, mask=exists, other=float("-inf"))
    at = tl.load(parts.at + part, mask=exists, other=_NONE)
    reached = tl.max(tl.load(parts.reached + part, mask=exists, other=0), 1)
    best1, at1 = row_max(best[:, :, None], at[:, :, None])
    return best1, at1, reached


@triton.jit(do_not_specialize=["num_splits"])
def combine_kernel(
    masks,
    target_ids,
    output,
    parts,
    num_splits,
    BLOCK: tl.constexpr,
):
    """One row's token from its parts."""
    row = tl.program_id(0).to(tl.int64) + tl.arange(0, 1)
    best1, at1, reached = best_of_parts(parts, row, num_splits, BLOCK)
    words = None
    if masks.bitmask is not None:
        mask_row = tl.load(masks.ids + row * masks.ids_stride).to(tl.int64)
        words = masks.bitmask + mask_row * masks.bitmask_stride
    tl.store(output + row, token_of(best1, at1, reached, words, target_ids, masks.num_words))
