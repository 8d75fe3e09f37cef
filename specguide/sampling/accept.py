"""Owns what an iteration leaves in the slots: golden tokens, lengths and ends by the verification,
then drafts."""

from __future__ import annotations

import torch
from torch import Tensor

from specguide.sampling.trees import SlotTrees
from specguide.sampling.verify import verify_chain, verify_tree


def accept_chains(
    target_tokens: Tensor,
    slots: Tensor,
    start: Tensor,
    *,
    tokens: Tensor,
    late: Tensor,
    active: Tensor,
    lengths: Tensor,
    max_lens: Tensor,
    end_ids: Tensor,
    slot_num_accepted: Tensor,
) -> Tensor:
    """Verify B chains and move their slots on; a slot that is late or not active is held and stays
    as it is.

    target_tokens: int32 [B, N], what the target says after each node
    slots, start:  int64 [B]; start is the position of the first node
    the others:    by slot, and written in place: tokens int32 [S, K + 1], late uint8, active bool,
    lengths and
                   max_lens int64, end_ids int32 [S, a power of two], slot_num_accepted int32
    Returns drafts accepted, int32 [B], -1 where the slot was held. A slot is active no longer when
    its request ends with these tokens, so that iterations launched before the host knows do no
    harm.
    """
    held = (late[slots] != 0) | ~active[slots]
    num_accepted, golden = verify_chain(
        target_tokens, tokens[slots, 1 : target_tokens.shape[1]], held
    )
    _move_on(
        target_tokens,
        num_accepted,
        golden,
        slots,
        start,
        tokens,
        active,
        lengths,
        max_lens,
        end_ids,
        slot_num_accepted,
    )
    return num_accepted


def accept_trees(
    target_tokens: Tensor,
    slots: Tensor,
    start: Tensor,
    trees: SlotTrees,
    depth: int,
    *,
    tokens: Tensor,
    accepted_path: Tensor,
    late: Tensor,
    active: Tensor,
    lengths: Tensor,
    max_lens: Tensor,
    end_ids: Tensor,
    slot_num_accepted: Tensor,
) -> tuple[Tensor, Tensor]:
    """Verify B trees and move their slots on, as `accept_chains` does.

    target_tokens: int32 [B, N], what the target says after each of the first N nodes
    trees:         of all slots; siblings have different tokens
    depth:         D, most drafts that are accepted
    tokens:        int32 [S, R], of which the first is written
    accepted_path: int32 [S, D or more], written: the places of the accepted drafts, -1 past the
                   last one; a held slot's stays
    Returns drafts accepted, int32 [B], -1 where the slot was held, and the accepted nodes, int64
    [B, D + 1], from node 0 on, -1 past the last one and in a slot that was held.
    """
    held = (late[slots] != 0) | ~active[slots]
    its = trees.select(slots, target_tokens.shape[1])
    num_accepted, path = verify_tree(target_tokens, its.tokens, its.parents, depth)
    said = target_tokens.gather(1, path.clamp(min=0))
    golden = said.gather(1, num_accepted[:, None].long())[:, 0].masked_fill(held, -1)
    num_accepted, path = num_accepted.masked_fill(held, -1), path.masked_fill(held[:, None], -1)
    places = its.places.gather(1, path[:, 1:].clamp(min=0)).masked_fill(path[:, 1:] < 0, -1).int()
    accepted_path[slots, :depth] = torch.where(held[:, None], accepted_path[slots, :depth], places)
    _move_on(
        said,
        num_accepted,
        golden,
        slots,
        start,
        tokens,
        active,
        lengths,
        max_lens,
        end_ids,
        slot_num_accepted,
    )
    return num_accepted, path


def _move_on(
    said: Tensor,
    num_accepted: Tensor,
    golden: Tensor,
    slots: Tensor,
    start: Tensor,
    tokens: Tensor,
    active: Tensor,
    lengths: Tensor,
    max_lens: Tensor,
    end_ids: Tensor,
    slot_num_accepted: Tensor,
) -> None:
    """Write what follows from a verification; said: int32 [B, n], the new tokens first."""
    held = num_accepted < 0
    slot_num_accepted[slots] = num_accepted
    tokens[slots, 0] = torch.where(held, tokens[slots, 0], golden)
    lengths[slots] = torch.where(held, lengths[slots], start + num_accepted + 1)
    is_new = torch.arange(said.shape[1], device=slots.device) <= num_accepted[:, None]
    is_end = (said[:, :, None] == end_ids[slots][:, None]).any(-1)
    has_ended = (is_new & is_end).any(-1) | (lengths[slots] + 1 >= max_lens[slots])
    active[slots] = active[slots] & (held | ~has_ended)


def store_drafts(
    drafts: Tensor, node: int, limits: Tensor, num_accepted: Tensor, slots: Tensor, tokens: Tensor
) -> None:
    """Write draft `node` of B slots into `tokens`, -1 beyond their limits; a slot that was held
    keeps the one it has.

    drafts, num_accepted: int32 [B], the latter as `accept_chains` gives it
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

    drafts, num_accepted: int32 [B], the latter as `accept_chains` gives it
    chain_len:            int32 [S], drafts that each slot has
    slots:                int64 [B]
    tokens:               int32 [S, W + 1]
    """
    node = (chain_len[slots] + 1).long()
    takes_draft = (num_accepted >= 0) & (node < tokens.shape[1])
    node = node.clamp(max=tokens.shape[1] - 1)
    tokens[slots, node] = torch.where(takes_draft, drafts, tokens[slots, node])
