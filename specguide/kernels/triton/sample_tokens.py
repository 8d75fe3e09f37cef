"""Owns how masked_sample reads the tokens of a row: its logits under its bitmask row, and their
weights.

Tiles are [1, words, 32]: a word is loaded once for its 32 tokens, and its logits only if it allows
any of them.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl


class Logits(NamedTuple):
    """Logits [rows, vocab_size]: a pointer to the first, and the stride between rows."""

    logits: Any
    stride: Any
    num_rows: Any
    vocab_size: Any


class Place(NamedTuple):
    """The place of a row: scalars, except the [1, 1, 1] of its mask.

    logits: offset of the row's first logit
    words:  offset of its mask's first word
    """

    logits: Any
    words: Any
    is_guided: Any
    exists: Any


class RowTokens(NamedTuple):
    """The tokens of a row at a Place of Logits under masks (RowArguments; without ids and bitmask
    all rows are free). The other fields are scalars.

    best:  the row's greatest logit
    min_p: the row's min_p; 0 keeps all
    """

    rows: Any
    masks: Any
    place: Any
    best: Any
    temperature: Any
    min_p: Any


@triton.jit
def find_row(rows, masks, row):
    """The Place of a row of Logits under masks."""
    row3 = row + tl.arange(0, 1)[:, None, None]
    exists = row3 < rows.num_rows
    mask_row = row3.to(tl.int64)
    is_guided = row3 < 0
    if masks.ids is not None:
        ids = masks.ids + row3 * masks.ids_stride
        mask_row = tl.load(ids, mask=exists, other=0).to(tl.int64)
        is_guided = tl.load(masks.guided + mask_row, mask=exists, other=0) != 0
    return Place(row * rows.stride, mask_row * masks.bitmask_stride, is_guided, exists)


@triton.jit
def _load_words(tokens, start, WORDS: tl.constexpr):
    """Mask words [1, words, 1] from a column on: all ones in a free row, and 0 past the end."""
    word = tl.arange(0, WORDS)[None, :, None]
    num_left = tokens.rows.vocab_size - start - word * 32
    words = tl.full((1, WORDS, 1), -1, tl.int32)
    if tokens.masks.bitmask is not None:
        words = tl.load(
            tokens.masks.bitmask + tokens.place.words + start // 32 + word,
            mask=tokens.place.is_guided & (num_left > 0),
            other=-1,
        )
    # Bits past the end are dropped word by word, which is 32 times cheaper than token by token.
    return tl.where(num_left >= 32, words, words & ~(-1 << tl.maximum(num_left, 0)))


@triton.jit
def load_choosable(tokens, start, WORDS: tl.constexpr):
    """Logits from a column on, float32 [1, words, 32] with -inf where a token cannot be chosen, and
    their columns [1, words, 32]."""
    word, bit = tl.arange(0, WORDS)[None, :, None], tl.arange(0, 32)[None, None, :]
    column = start + word * 32 + bit
    words = _load_words(tokens, start, WORDS)
    values = tl.load(
        tokens.rows.logits + tokens.place.logits + column,
        mask=(column < tokens.rows.vocab_size) & tokens.place.exists & (words != 0),
        other=float("-inf"),
    ).to(tl.float32)
    is_allowed = words & (1 << bit) != 0
    return tl.where(is_allowed & (values == values), values, float("-inf")), column


@triton.jit
def log_weights(tokens, values):
    """Log-weights of logits, the greatest is 0; if the best logit is infinite, its equals are 0 and
    all others -inf."""
    scaled = tl.div_rn(values - tokens.best, values * 0 + tokens.temperature)
    return tl.where(values == tokens.best, 0.0, scaled)


@triton.jit
def is_before(log_weight, column, limit, limit_at):
    """Whether tokens come before (limit, limit_at): those with a greater log-weight, or with the
    same one and a lower id."""
    return (log_weight > limit) | ((log_weight == limit) & (column < limit_at))
