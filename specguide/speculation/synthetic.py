"""Owns synthetic acceptance: a service can be measured with random weights."""

from __future__ import annotations

import torch
from torch import Tensor

from specguide.guided.grammar_stream.stream import GrammarStream
from specguide.kernels import LogitsShare
from specguide.sampling import DraftedSlots, Pattern, accept_by_pattern
from specguide.slots import SlotTable
from specguide.speculation.batch_sampling import Sampling
from specguide.speculation.forward_input import Nodes
from specguide.speculation.sampler import Sampler

_PERIOD = 1024


class SyntheticAcceptance:
    """A sampler that first lets another sampler choose, so that this work is measured too, and then
    accepts as many drafts as a seeded pattern says, whatever the target chose. See `Sampler`.

    For each slot and iteration, the pattern draws the number of drafts from a binomial distribution
    of K trials. Drafts that the grammar forbids are never accepted, so guided outputs stay in their
    grammar, but they are not the target's outputs. All of it runs on the device in one kernel, also
    in graphs.

    acceptance_length: mean of the pattern, golden token included, 1 to K + 1
    num_draft_tokens:  K; drafts are chains
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
        self._own, self._state = own, state
        device = state.ids.device
        num_slots = len(state.ids)
        generator = torch.Generator().manual_seed(0)
        trials = torch.rand(_PERIOD, num_slots, num_draft_tokens, generator=generator)
        num_accepted = (trials * num_draft_tokens < acceptance_length - 1).sum(-1)
        iteration = torch.zeros(1, dtype=torch.int64, device=device)
        self._pattern = Pattern(num_accepted.int().to(device), iteration)
        self._slots = DraftedSlots(state.nodes.tokens, grammar.held, state.active)

    def choose(self, logits: Tensor | LogitsShare, nodes: Nodes, sampling: Sampling) -> Tensor:
        target_tokens = self._own.choose(logits, nodes, sampling)
        inputs = nodes.inputs
        if inputs.num_nodes > 1:
            slots = self._state.ids[inputs.slots]
            accept_by_pattern(target_tokens, slots, self._slots, self._pattern, nodes.rows)
        return target_tokens
