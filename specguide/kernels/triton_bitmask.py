"""Owns how Triton kernels read bitmask rows and the logits under them, and apply_bitmask.

Tiles are [rows, words, 32]: a word is loaded once for its 32 tokens, and its logits only where it allows any.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def load_row(row, num_rows, guided, row_ids, row_ids_stride, bitmask_stride):
    """Offset of each row's first word, whether the row is guided, and whether it exists. row: [rows, 1, 1]."""
    exists = row < num_rows
    mask_row = tl.load(row_ids + row * row_ids_stride, mask=exists, other=0).to(tl.int64)
    is_guided = tl.load(guided + mask_row, mask=exists, other=0) != 0
    return mask_row * bitmask_stride, is_guided, exists


@triton.jit
def load_tile(
    logits, bitmask, target_ids, first_column, vocab_size, logits_offset, words_offset, is_guided, exists,
    WORDS: tl.constexpr,
):
    """Logits [rows, words, 32] from a column on, float32, and int32 that is 0 where the row forbids the token.

    Past the end, and where a word allows nothing, a logit is -inf; a NaN is a NaN.
    target_ids: where given, columns are draft ids, and each looks up its own word
    """
    word, bit = tl.arange(0, WORDS)[None, :, None], tl.arange(0, 32)[None, None, :]
    column = first_column + word * 32 + bit
    in_vocab = column < vocab_size
    if target_ids is not None:
        any_guided = tl.max(is_guided.to(tl.int32), 0, keep_dims=True) != 0
        token = tl.load(target_ids + column, mask=in_vocab & any_guided, other=0).to(tl.int32)
        free = is_guided.to(tl.int32) - 1  # 0 for a guided row: past the end it allows nothing
        words = tl.load(bitmask + words_offset + (token >> 5), mask=is_guided & in_vocab, other=free)
        allowed = words & (1 << (token & 31))
        values = tl.load(logits + logits_offset + column, mask=in_vocab & exists, other=float("-inf"))
    else:
        num_left = vocab_size - first_column - word * 32
        words = tl.load(bitmask + words_offset + first_column // 32 + word, mask=is_guided & (num_left > 0), other=-1)
        # Bits past the end are dropped word by word, which is 32 times cheaper than token by token.
        words = tl.where(num_left >= 32, words, words & ~(-1 << tl.maximum(num_left, 0)))
        allowed = words & (1 << bit)
        values = tl.load(logits + logits_offset + column, mask=in_vocab & exists & (words != 0), other=float("-inf"))
    return values.to(tl.float32), allowed


@triton.jit
def _apply_kernel(
    logits, bitmask, guided, row_ids, vocab_size, logits_stride, bitmask_stride,
    row_ids_stride, WORDS: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    mask_row = tl.load(row_ids + row * row_ids_stride)
    if tl.load(guided + mask_row) != 0:
        first_word = tl.program_id(1) * WORDS
        word, bit = first_word + tl.arange(0, WORDS)[:, None], tl.arange(0, 32)[None, :]
        words = tl.load(bitmask + mask_row * bitmask_stride + word, mask=word * 32 < vocab_size, other=-1)
        column = word * 32 + bit
        nothing = tl.full((WORDS, 32), float("-inf"), logits.dtype.element_ty)
        sink = logits + row * logits_stride + column
        # A word that allows nothing is written in wide stores; a mixed one token by token.
        tl.store(sink, nothing, mask=(words == 0) & (column < vocab_size))
        tl.store(sink, nothing, mask=(words != 0) & (((words >> bit) & 1) == 0) & (column < vocab_size))


def apply_bitmask(logits: Tensor, bitmask: Tensor, guided: Tensor, row_ids: Tensor) -> None:
    """See reference.apply_bitmask."""
    num_rows, vocab_size = logits.shape
    words = 64
    _apply_kernel[(num_rows, triton.cdiv(vocab_size, words * 32))](
        logits, bitmask, guided.view(torch.uint8), row_ids, vocab_size, logits.stride(0), bitmask.stride(0),
        row_ids.stride(0), WORDS=words, num_warps=4)
