"""Owns the choice of tokens by ranks of which each has the logits of a part of the vocabulary: they
tell one another their best, not their logits."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from specguide.kernels.bitmask_rows import BitmaskRows
from specguide.kernels.peers import Peers, exchange
from specguide.kernels.reference import best_of_rows, chosen_tokens

NUM_WORDS = 32
"""Of what a rank tells of a row: the bits of its best logit, its column, whether any token may be
chosen, and zeros; a word for each thread that waits for them."""


@dataclass(frozen=True, eq=False)
class LogitsShare:
    """Of each row, the logits of some tokens.

    values: [n, V / ranks]
    first:  column of the first of them, among all V; a multiple of 32
    peers:  the other ranks, to be told of rows of NUM_WORDS
    """

    values: Tensor
    first: int
    peers: Peers

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return self.values.device

    def rows(self, rows: BitmaskRows | None, target_ids: Tensor | None) -> BitmaskRows | None:
        """What may be chosen of these tokens, as `masked_argmax` takes it."""
        if rows is None or target_ids is not None:
            return rows
        return rows._replace(bitmask=rows.bitmask[:, self.first // 32 :])

    def ids(self, target_ids: Tensor | None) -> Tensor | None:
        """Those of these tokens."""
        if target_ids is None:
            return None
        return target_ids[self.first : self.first + self.values.shape[1]]


def masked_argmax_of_shares(
    logits: LogitsShare, rows: BitmaskRows | None, target_ids: Tensor | None = None
) -> Tensor:
    """`masked_argmax` of the whole rows, on all ranks; rows and target_ids: of the whole
    vocabulary."""
    best, place, is_reached = best_of_rows(
        logits.values, logits.rows(rows, target_ids), logits.ids(target_ids)
    )
    told = torch.zeros(len(best), NUM_WORDS, dtype=torch.int32)
    told[:, 0] = best.float().view(torch.int32)
    told[:, 1] = place + logits.first
    told[:, 2] = is_reached
    every = exchange(told, logits.peers, 1)
    bests = every[:, :, 0].contiguous().view(torch.float32)
    winner = bests.max(0).indices[None]  # of equals the first rank, whose columns come first
    place = every[:, :, 1].gather(0, winner)[0].long()
    return chosen_tokens(bests.amax(0), place, every[:, :, 2].amax(0) > 0, rows, target_ids)
