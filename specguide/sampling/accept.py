"""Owns what an iteration writes into the slots: golden tokens, lengths and ends from the
verification, then the new drafts."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from specguide.sampling.trees import SlotTrees
from specguide.sampling.verify import verify_chain, verify_tree


class AcceptState(NamedTuple):
    """The state of S slots that a verification reads and updates in place; see SlotTable.

    tokens:       int32 [S, N], golden token and drafts
    late:         uint8 [S], not 0: the target's rows were late; read only
    active:       bool [S]
    lengths:      int64 [S]
    max_lens:     int64 [S], read only
    end_ids:      int32 [S, a power of two], read only
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
    """The trees of drafts that a verification reads, and the paths that it writes.

    trees:         the trees of all slots; siblings have different tokens
    depth:         D, most drafts that are accepted
    accepted_path: int32 [S, D or more], written: the places of the accepted drafts, -1 past the
                   last one; that of a held slot stays
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
    """Verify the drafts of B slots, and advance the slots. A slot that is late or not active is
    held: it stays as it is.

    target_tokens: int32 [B, N], the token that the target chooses after each node
    slots, start:  int64 [B]; start is the position of the first node
    branches:      the draft trees; None: drafts are chains, in state.tokens
    Returns the number of accepted drafts, int32 [B], -1 where the slot was held; and with branches
    the accepted nodes, int64 [B, D + 1], from node 0 on, -1 past the last one and where the slot
    was held. A slot whose request ends with these tokens becomes inactive, so that iterations that
    were launched before the host knows of the end do no harm.
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
    """Update the slots after a verification. new_tokens: int32 [B, n], the first ones are new"""
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
    """Write draft `node` of B slots into `tokens`, or -1 beyond a slot's limit; a slot that was
    held keeps the draft that it has.

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
    """Append one draft to the chain of each of B slots in `tokens`, but not where the chain is full
    or the slot was held.

    drafts, num_accepted: int32 [B], the latter as `accept_drafts` gives it
    chain_len:            int32 [S], drafts that each slot has
    slots:                int64 [B]
    tokens:               int32 [S, W + 1]
    """
    node = (chain_len[slots] + 1).long()
    takes_draft = (num_accepted >= 0) & (node < tokens.shape[1])
    node = node.clamp(max=tokens.shape[1] - 1)
    tokens[slots, node] = torch.where(takes_draft, drafts, tokens[slots, node])
