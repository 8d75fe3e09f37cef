"""Owns the rule of synthetic acceptance: a fixed pattern says how many drafts are accepted,
whatever the target chooses."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from specguide.kernels import BitmaskRows


class Pattern(NamedTuple):
    """How many drafts S slots accept.

    num_accepted: int32 [P, S], most drafts that each slot accepts in each of P iterations, repeated
                  for ever
    iteration:    int64 [1], index of the last iteration; each call advances it
    """

    num_accepted: Tensor
    iteration: Tensor


class DraftedSlots(NamedTuple):
    """The state of S slots that synthetic acceptance reads. It removes drafts from `tokens`.

    tokens: int32 [S, N or more], golden token and drafts, -1 for none
    late:   uint8 [S], 1: this iteration accepts nothing for the slot
    active: bool [S]
    """

    tokens: Tensor
    late: Tensor
    active: Tensor


def accept_by_pattern(
    target_tokens: Tensor,
    slots: Tensor,
    state: DraftedSlots,
    pattern: Pattern,
    rows: BitmaskRows | None,
) -> None:
    """Replace the target's tokens by drafts, so that verification accepts as many drafts of B
    chains as the pattern has for its next iteration, up to the first draft that is missing or that
    the grammar forbids. The other drafts are removed, since the target might choose the same tokens
    by chance; those of a slot that is late or not active stay.

    target_tokens: int32 [B, N], the token that the target chooses after each node; changed in place
    slots:         int64 [B]
    rows:          bitmask rows of all nodes, [B · N]; None: the grammar allows all
    """
    num_drafts = target_tokens.shape[1] - 1
    pattern.iteration.add_(1).remainder_(len(pattern.num_accepted))
    most = pattern.num_accepted[pattern.iteration, slots][:, None]
    drafts = state.tokens[slots, 1 : num_drafts + 1]
    places = torch.arange(1, num_drafts + 1, device=slots.device)
    is_accepted = ((places <= most) & _allows(rows, drafts)).int().cumprod(dim=1) > 0
    target_tokens[:, :-1] = torch.where(is_accepted, drafts, target_tokens[:, :-1])
    is_held = (state.late[slots] != 0) | ~state.active[slots]
    kept = torch.where(is_accepted | is_held[:, None], drafts, -1)
    state.tokens[slots, 1 : num_drafts + 1] = kept


def _allows(rows: BitmaskRows | None, drafts: Tensor) -> Tensor:
    """Which drafts exist and are allowed by the row of the node before, bool [B, N - 1]."""
    if rows is None:
        return drafts >= 0
    ids = rows.ids.view(len(drafts), -1)[:, :-1]
    token_ids = drafts.clamp(min=0).long()
    words = rows.bitmask[ids, token_ids >> 5]
    is_allowed = (words >> (token_ids & 31)) & 1 == 1
    return (drafts >= 0) & (is_allowed | (rows.guided[ids] == 0))
