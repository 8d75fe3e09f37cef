"""Owns the Triton masked_argmax_of_shares: each rank's part as masked_argmax finds it, and a kernel
in which the ranks exchange these parts."""

# mypy: allow-untyped-defs

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from specguide.kernels.bitmask_rows import BitmaskRows
from specguide.kernels.shares import NUM_WORDS, LogitsShare
from specguide.kernels.triton.argmax import MOST_SPLITS, choose_launch, launch_argmax
from specguide.kernels.triton.argmax_kernels import best_of_parts, token_of
from specguide.kernels.triton.bitmask import RowArguments
from specguide.kernels.triton.peers import (
    PeerArguments,
    Tile,
    bits_of_rank,
    rank_constants,
    send_bits,
    sendable,
)

_WORDS = tl.constexpr(NUM_WORDS)


@triton.jit(do_not_specialize=["num_splits"])
def _tell_kernel(
    masks,
    target_ids,
    output,
    parts,
    peers,
    first,
    num_splits,
    BLOCK: tl.constexpr,
    RANK: tl.constexpr,
    NUM_RANKS: tl.constexpr,
):
    """Store one row's token, from its parts on all ranks."""
    row = tl.program_id(0).to(tl.int64) + tl.arange(0, 1)
    best, at, reached = best_of_parts(parts, row, num_splits, BLOCK)
    word = tl.arange(0, _WORDS)[None, :]
    at_or_reached = tl.where(word == 1, (at + first)[:, None], reached[:, None])
    told = tl.where(word == 0, best.to(tl.int32, bitcast=True)[:, None], at_or_reached)
    told = sendable(told)
    turn = tl.load(peers.turns + tl.program_id(0))
    tile = Tile(row[:, None], word, word < _WORDS, turn)
    send_bits(told, peers, tile, _WORDS, RANK, NUM_RANKS)
    best = tl.full((1,), float("-inf"), tl.float32)
    for rank in tl.static_range(NUM_RANKS):
        theirs = bits_of_rank(rank, told, peers, tile, _WORDS, RANK)
        value = tl.sum(tl.where(word == 0, theirs, 0), 1).to(tl.float32, bitcast=True)
        is_better = value > best
        best = tl.where(is_better, value, best)
        at = tl.where(is_better, tl.sum(tl.where(word == 1, theirs, 0), 1), at)
        reached |= tl.sum(tl.where(word == 2, theirs, 0), 1)
    tl.store(peers.turns + tl.program_id(0), turn + 1)
    words = None
    if masks.bitmask is not None:
        mask_row = tl.load(masks.ids + row * masks.ids_stride).to(tl.int64)
        words = masks.bitmask + mask_row * masks.bitmask_stride
    tl.store(output + row, token_of(best, at, reached, words, target_ids, masks.num_words))


def masked_argmax_of_shares(
    logits: LogitsShare, rows: BitmaskRows | None, target_ids: Tensor | None = None
) -> Tensor:
    """See shares.masked_argmax_of_shares."""
    values, peers, ids = logits.values, logits.peers, logits.ids(target_ids)
    num_rows, vocab_size = values.shape
    launch = choose_launch(num_rows, vocab_size, values.device, pruned=ids is not None)
    masks = RowArguments.of(logits.rows(rows, target_ids))
    parts = launch_argmax(values, masks, ids, launch, None)
    output = torch.empty(num_rows, dtype=torch.int32, device=values.device)
    _tell_kernel[(num_rows,)](
        RowArguments.of(rows),
        target_ids,
        output,
        parts,
        PeerArguments.of(peers),
        logits.first,
        launch.num_splits,
        BLOCK=MOST_SPLITS,
        num_warps=1,
        **rank_constants(peers),
    )
    return output
