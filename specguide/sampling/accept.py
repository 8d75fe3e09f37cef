"""Owns what an iteration leaves in the slots: golden tokens, lengths and ends by the verification, then drafts."""

from __future__ import annotations

import torch
from torch import Tensor

from specguide.sampling.verify import verify_chain


def accept_chains(target_tokens: Tensor, slots: Tensor, start: Tensor, *, tokens: Tensor, late: Tensor, active: Tensor,
                  lengths: Tensor, max_lens: Tensor, end_ids: Tensor, slot_num_accepted: Tensor) -> Tensor:
    """Verify B chains and move their slots on; a slot that is late or not active is held and stays as it is.

    target_tokens: int32 [B, N], what the target says after each node
    slots, start:  int64 [B]; start is the position of the first node
    the others:    by slot, and written in place: tokens int32 [S, K + 1], late uint8, active bool, lengths and
                   max_lens int64, end_ids int32 [S, a power of two], slot_num_accepted int32
    Returns drafts accepted, int32 [B], -1 where the slot was held. A slot is active no longer when its request ends
    with these tokens, so that iterations launched before the host knows do no harm.
    """
    held = (late[slots] != 0) | ~active[slots]
    num_accepted, golden = verify_chain(target_tokens, tokens[slots, 1:target_tokens.shape[1]], held)
    slot_num_accepted[slots] = num_accepted
    tokens[slots, 0] = torch.where(held, tokens[slots, 0], golden)
    lengths[slots] = torch.where(held, lengths[slots], start + num_accepted + 1)
    is_new = torch.arange(target_tokens.shape[1], device=slots.device) <= num_accepted[:, None]
    is_end = (target_tokens[:, :, None] == end_ids[slots][:, None]).any(-1)
    has_ended = (is_new & is_end).any(-1) | (lengths[slots] + 1 >= max_lens[slots])
    active[slots] = active[slots] & (held | ~has_ended)
    return num_accepted


def store_drafts(drafts: Tensor, node: int, num_accepted: Tensor, slots: Tensor, tokens: Tensor) -> None:
    """Write draft `node` of B slots into `tokens`; a slot that was held keeps the one that it has.

    drafts, num_accepted: int32 [B], the latter as `accept_chains` gives it
    slots:                int64 [B]
    tokens:               int32 [S, K + 1]
    """
    tokens[slots, node] = torch.where(num_accepted < 0, tokens[slots, node], drafts)


def append_drafts(drafts: Tensor, chain_len: Tensor, num_accepted: Tensor, slots: Tensor, tokens: Tensor) -> None:
    """Write the drafts of B slots into `tokens`, each behind its chain; none where the chain is full or was held.

    drafts, num_accepted: int32 [B], the latter as `accept_chains` gives it
    chain_len:            int32 [S], drafts that each slot has
    slots:                int64 [B]
    tokens:               int32 [S, W + 1]
    """
    node = (chain_len[slots] + 1).long()
    takes_draft = (num_accepted >= 0) & (node < tokens.shape[1])
    node = node.clamp(max=tokens.shape[1] - 1)
    tokens[slots, node] = torch.where(takes_draft, drafts, tokens[slots, node])
