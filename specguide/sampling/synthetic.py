"""Owns the rule of synthetic acceptance: drafts are accepted as a pattern says, whatever the target
wanted."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from specguide.kernels import BitmaskRows


class Pattern(NamedTuple):
    """How many drafts S slots accept.

    num_accepted: int32 [P, S], most drafts that each of P iterations accepts, over and over
    iteration:    int64 [1], the last one's; counts
    """

    num_accepted: Tensor
    iteration: Tensor


class DraftedSlots(NamedTuple):
    """What synthetic acceptance reads of S slots, and the drafts that it takes out.

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
    """Have the target choose as many of the first drafts of B slots' chains as the pattern has for
    its next iteration, up to the first draft that there is not or that the grammar does not allow.
    The other drafts are forgotten, since the target might choose the same; those of a slot that is
    late or not active stay.

    target_tokens: int32 [B, N], what the target says after each node; changed in place
    slots:         int64 [B]
    rows:          of all nodes, [B · N]; None: the grammar allows all
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
    """Which drafts there are and the rows of the nodes before them allow, bool [B, N - 1]."""
    if rows is None:
        return drafts >= 0
    ids = rows.ids.view(len(drafts), -1)[:, :-1]
    token_ids = drafts.clamp(min=0).long()
    words = rows.bitmask[ids, token_ids >> 5]
    is_allowed = (words >> (token_ids & 31)) & 1 == 1
    return (drafts >= 0) & (is_allowed | (rows.guided[ids] == 0))
