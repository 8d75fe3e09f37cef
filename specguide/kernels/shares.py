"""Owns the choice of tokens when each rank has the logits of only a part of the vocabulary: ranks
exchange their best tokens, not their logits."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from specguide.kernels.bitmask_rows import BitmaskRows
from specguide.kernels.peers import Peers, exchange
from specguide.kernels.reference import best_of_rows, chosen_tokens

NUM_WORDS = 32
"""Number of words that a rank sends for each row: the bits of its best logit, its column, whether
any token is allowed, and zeros, so that every waiting thread has a word of its own."""


@dataclass(frozen=True, eq=False)
class LogitsShare:
    """The logits of a part of the vocabulary, for each row.

    values: [n, V / ranks]
    first:  column of the first of these tokens, among all V; a multiple of 32
    peers:  the other ranks, with places for rows of NUM_WORDS
    """

    values: Tensor
    first: int
    peers: Peers

    @property
    def device(self) -> torch.device:
        """The device that holds them."""
        return self.values.device

    def rows(self, rows: BitmaskRows | None, target_ids: Tensor | None) -> BitmaskRows | None:
        """The bitmask rows of these tokens, in the form that `masked_argmax` takes."""
        if rows is None or target_ids is not None:
            return rows
        return rows._replace(bitmask=rows.bitmask[:, self.first // 32 :])

    def ids(self, target_ids: Tensor | None) -> Tensor | None:
        """The target ids of these tokens."""
        if target_ids is None:
            return None
        return target_ids[self.first : self.first + self.values.shape[1]]


def masked_argmax_of_shares(
    logits: LogitsShare, rows: BitmaskRows | None, target_ids: Tensor | None = None
) -> Tensor:
    """`masked_argmax` over the whole vocabulary, the same on all ranks. rows, target_ids: those of
    the whole vocabulary"""
    best, place, is_reached = best_of_rows(
        logits.values, logits.rows(rows, target_ids), logits.ids(target_ids)
    )
    told = torch.zeros(len(best), NUM_WORDS, dtype=torch.int32)
    told[:, 0] = best.float().view(torch.int32)
    told[:, 1] = place + logits.first
    told[:, 2] = is_reached
    every = exchange(told, logits.peers, 1)
    bests = every[:, :, 0].contiguous().view(torch.float32)
    winner = bests.max(0).indices[None]  # among equals the first rank, whose columns come first
    place = every[:, :, 1].gather(0, winner)[0].long()
    return chosen_tokens(bests.amax(0), place, every[:, :, 2].amax(0) > 0, rows, target_ids)
