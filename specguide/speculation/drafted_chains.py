"""Owns drafting a chain with a drafter alone: K tokens, one behind the other, with the grammar
beside."""

from __future__ import annotations

from torch import Tensor

from specguide.draft_window import DraftWindow
from specguide.guided.stream import GrammarStream
from specguide.slots import SlotTable
from specguide.speculation.chain_sampler import ChainSampler
from specguide.speculation.passes import ForwardPasses
from specguide.speculation.query import Query
from specguide.speculation.results import Verified


class DraftedChains:
    """Drafts greedily: over what the rows allow, or where drafts are unguided over all tokens."""

    def __init__(
        self, passes: ForwardPasses, sampler: ChainSampler, state: SlotTable, guide: GrammarStream
    ) -> None:
        self._passes, self._sampler, self._state, self._guide = passes, sampler, state, guide

    def clear(self, slots: Tensor) -> None:
        """Forget what `slots` int64 [B] drafted, but for the tokens: nothing here."""

    def draft(
        self, query: Query, verified: Verified, taps: Tensor, num_slots: int, window: DraftWindow
    ) -> None:
        """Refresh the drafter from the target's hidden states, then draft K tokens, K of `window`.

        Unguided drafts wait for no row: the walk follows them at its own pace, and is waited for at
        the end.
        """
        sampler, slots, num_accepted = self._sampler, query.slots, verified.num_accepted
        self._guide.launch(1, num_slots)
        normed, hidden = self._passes.refresh(query, taps, verified.tokens, num_accepted)
        lengths = self._state.lengths[slots]
        for node in range(1, window.num_model + 1):
            if sampler.guided_drafts:
                self._guide.announce_wait()
            logits = self._passes.draft_logits(normed)
            self._guide.recorder.forward(f"draft {node}")
            if sampler.guided_drafts:
                self._guide.wait_rows()
            drafts = sampler.draft(logits, slots, node, num_accepted, self._passes.target_ids)
            self._guide.recorder.forward(f"choose {node}")
            if node < window.num_model:
                self._guide.launch(node + 1, num_slots)
                normed, hidden = self._passes.draft(drafts, hidden, lengths, slots, node - 1)
        if not sampler.guided_drafts:
            self._guide.announce_wait()
            self._guide.wait_rows()
