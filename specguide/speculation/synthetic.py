"""Owns synthetic acceptance: for measuring a service on weights that say nothing."""

from __future__ import annotations

import torch
from torch import Tensor

from specguide.guided.stream import GrammarStream
from specguide.kernels import BitmaskRows, LogitsShare
from specguide.slots import SlotTable
from specguide.speculation.nodes import Nodes
from specguide.speculation.sampler import Sampler
from specguide.speculation.selection import Sampling

_PERIOD = 1024


class SyntheticAcceptance:
    """A sampler that lets another one choose, so that its work is done, and then accepts as many
    drafts as a seeded pattern says, whatever the target wanted. See `Sampler`.

    In each iteration of each slot the pattern draws a number from the binomial distribution of K
    trials. Drafts that the grammar does not allow are never accepted, so guided outputs stay in
    their grammar; but outputs are not the target's. All of it runs on the device, also in graphs.

    acceptance_length: mean of the pattern, golden token included, 1 to K + 1
    num_draft_tokens:  K, of chains
    """

    def __init__(
        self,
        own: Sampler,
        grammar: GrammarStream,
        state: SlotTable,
        acceptance_length: float,
        num_draft_tokens: int,
    ) -> None:
        self.guided_drafts = own.guided_drafts
        self.draft, self.children = own.draft, own.children
        self._own, self._grammar, self._state = own, grammar, state
        device, num_slots = state.ids.device, len(state.ids)
        generator = torch.Generator().manual_seed(0)
        trials = torch.rand(_PERIOD, num_slots, num_draft_tokens, generator=generator)
        num_accepted = (trials * num_draft_tokens < acceptance_length - 1).sum(-1)
        self._num_accepted = num_accepted.to(device)
        self._iteration = torch.zeros(1, dtype=torch.int64, device=device)
        self._places = torch.arange(1, num_draft_tokens + 1, device=device)

    def choose(self, logits: Tensor | LogitsShare, nodes: Nodes, sampling: Sampling) -> Tensor:
        target_tokens = self._own.choose(logits, nodes, sampling)
        num_drafts = nodes.inputs.num_nodes - 1
        if num_drafts:
            slots = self._state.ids[nodes.inputs.slots]
            drafts = self._state.nodes.tokens[slots, 1 : num_drafts + 1]
            is_accepted = self._accepts(slots, drafts, nodes.rows)
            target_tokens[:, :-1] = torch.where(is_accepted, drafts, target_tokens[:, :-1])
            self._reject(slots, drafts, is_accepted)
        return target_tokens

    def _accepts(self, slots: Tensor, drafts: Tensor, rows: BitmaskRows | None) -> Tensor:
        """Which drafts this iteration accepts, bool [B, N - 1]."""
        self._iteration.add_(1).remainder_(_PERIOD)
        num_accepted = self._num_accepted[self._iteration, slots][:, None]
        is_accepted = (self._places[: drafts.shape[1]] <= num_accepted) & _allows(rows, drafts)
        return is_accepted.int().cumprod(dim=1) > 0

    def _reject(self, slots: Tensor, drafts: Tensor, is_accepted: Tensor) -> None:
        """Forget the other drafts, else the target may say the same; a held slot's stay."""
        state = self._state
        is_held = (self._grammar.held[slots] != 0) | ~state.active[slots]
        kept = torch.where(is_accepted | is_held[:, None], drafts, -1)
        state.nodes.tokens[slots, 1 : drafts.shape[1] + 1] = kept


def _allows(rows: BitmaskRows | None, drafts: Tensor) -> Tensor:
    """Which drafts there are and the rows of the nodes before them allow, bool [B, N - 1]."""
    if rows is None:
        return drafts >= 0
    ids = rows.ids.view(len(drafts), -1)[:, :-1]
    token_ids = drafts.clamp(min=0).long()
    words = rows.bitmask[ids, token_ids >> 5]
    is_allowed = (words >> (token_ids & 31)) & 1 == 1
    return (drafts >= 0) & (is_allowed | (rows.guided[ids] == 0))
