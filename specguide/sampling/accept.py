"""Owns what an iteration leaves in the slots: golden tokens, lengths and ends by the verification,
then drafts."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from specguide.sampling.trees import SlotTrees
from specguide.sampling.verify import verify_chain, verify_tree


class AcceptState(NamedTuple):
    """What a verification reads and writes of S slots, in place.

    tokens:       int32 [S, N], golden token and drafts
    late:         uint8 [S], read
    active:       bool [S]
    lengths:      int64 [S]
    max_lens:     int64 [S], read
    end_ids:      int32 [S, a power of two], read
    num_accepted: int32 [S]
    """

    tokens: Tensor
    late: Tensor
    active: Tensor
    lengths: Tensor
    max_lens: Tensor
    end_ids: Tensor
    num_accepted: Tensor


class Branches(NamedTuple):
    """Where several drafts may follow a node.

    trees:         of all slots; siblings have different tokens
    depth:         D, most drafts that are accepted
    accepted_path: int32 [S, D or more], written: the places of the accepted drafts, -1 past the
                   last one; a held slot's stays
    """

    trees: SlotTrees
    depth: int
    accepted_path: Tensor


def accept_drafts(
    target_tokens: Tensor,
    slots: Tensor,
    start: Tensor,
    state: AcceptState,
    branches: Branches | None = None,
) -> tuple[Tensor, Tensor | None]:
    """Verify the drafts of B slots and move these on; a slot that is late or not active is held and
    stays as it is.

    target_tokens: int32 [B, N], what the target says after each node
    slots, start:  int64 [B]; start is the position of the first node
    branches:      None: each draft follows the one before, and they are the slots' tokens
    Returns drafts accepted, int32 [B], -1 where the slot was held; and with branches the accepted
    nodes, int64 [B, D + 1], from node 0 on, -1 past the last one and in a slot that was held. A
    slot is active no longer when its request ends with these tokens, so that iterations launched
    before the host knows do no harm.
    """
    held = (state.late[slots] != 0) | ~state.active[slots]
    if branches is None:
        drafts = state.tokens[slots, 1 : target_tokens.shape[1]]
        num_accepted, golden = verify_chain(target_tokens, drafts, held)
        _move_on(target_tokens, num_accepted, golden, slots, start, state)
        return num_accepted, None
    its = branches.trees.select(slots, target_tokens.shape[1])
    num_accepted, path = verify_tree(target_tokens, its.tokens, its.parents, branches.depth)
    new_tokens = target_tokens.gather(1, path.clamp(min=0))
    golden = new_tokens.gather(1, num_accepted[:, None].long())[:, 0].masked_fill(held, -1)
    num_accepted, path = num_accepted.masked_fill(held, -1), path.masked_fill(held[:, None], -1)
    places = its.places.gather(1, path[:, 1:].clamp(min=0)).masked_fill(path[:, 1:] < 0, -1).int()
    before = branches.accepted_path[slots, : branches.depth]
    branches.accepted_path[slots, : branches.depth] = torch.where(held[:, None], before, places)
    _move_on(new_tokens, num_accepted, golden, slots, start, state)
    return num_accepted, path


def _move_on(
    new_tokens: Tensor,
    num_accepted: Tensor,
    golden: Tensor,
    slots: Tensor,
    start: Tensor,
    state: AcceptState,
) -> None:
    """Write what follows from a verification; new_tokens: int32 [B, n], the new tokens first."""
    held = num_accepted < 0
    state.num_accepted[slots] = num_accepted
    state.tokens[slots, 0] = torch.where(held, state.tokens[slots, 0], golden)
    state.lengths[slots] = torch.where(held, state.lengths[slots], start + num_accepted + 1)
    is_new = torch.arange(new_tokens.shape[1], device=slots.device) <= num_accepted[:, None]
    is_end = (new_tokens[:, :, None] == state.end_ids[slots][:, None]).any(-1)
    is_full = state.lengths[slots] + 1 >= state.max_lens[slots]
    has_ended = (is_new & is_end).any(-1) | is_full
    state.active[slots] = state.active[slots] & (held | ~has_ended)


def store_drafts(
    drafts: Tensor, node: int, limits: Tensor, num_accepted: Tensor, slots: Tensor, tokens: Tensor
) -> None:
    """Write draft `node` of B slots into `tokens`, -1 beyond their limits; a slot that was held
    keeps the one it has.

    drafts, num_accepted: int32 [B], the latter as `accept_drafts` gives it
    limits:               int32 [S], most drafts of each slot
    slots:                int64 [B]
    tokens:               int32 [S, K + 1]
    """
    within = torch.where(limits[slots] < node, -1, drafts)
    tokens[slots, node] = torch.where(num_accepted < 0, tokens[slots, node], within)


def append_drafts(
    drafts: Tensor, chain_len: Tensor, num_accepted: Tensor, slots: Tensor, tokens: Tensor
) -> None:
    """Write the drafts of B slots into `tokens`, each behind its chain; none where the chain is
    full or was held.

    drafts, num_accepted: int32 [B], the latter as `accept_drafts` gives it
    chain_len:            int32 [S], drafts that each slot has
    slots:                int64 [B]
    tokens:               int32 [S, W + 1]
    """
    node = (chain_len[slots] + 1).long()
    takes_draft = (num_accepted >= 0) & (node < tokens.shape[1])
    node = node.clamp(max=tokens.shape[1] - 1)
    tokens[slots, node] = torch.where(takes_draft, drafts, tokens[slots, node])
