"""Owns drafting where some drafts come from the host: each comes behind the token that it follows
from."""

from __future__ import annotations

import torch
from torch import Tensor

from specguide.draft_window import DraftWindow
from specguide.guided.stream import GrammarStream
from specguide.slots import Slots, SlotTable
from specguide.speculation.chain_sampler import ChainSampler
from specguide.speculation.passes import ForwardPasses
from specguide.speculation.query import Query
from specguide.speculation.results import Verified


class ProposedChains:
    """Makes chains of the drafter's K tokens, if there is a drafter, and of what the callbacks
    propose behind each.

    A chain is that of the golden token: what the grammar forces or was looked up, the drafter's
    first token, what is forced then, and so on, up to W tokens. How long it has become is read on
    the device, after each callback.
    """

    def __init__(
        self, passes: ForwardPasses, sampler: ChainSampler, state: SlotTable, guide: GrammarStream
    ) -> None:
        assert guide.proposals is not None
        self._passes, self._sampler, self._state, self._guide = passes, sampler, state, guide
        self._proposals = guide.proposals
        self._tokens, self._chain_len = state.nodes.tokens, self._proposals.chain_len
        self._recorder = guide.recorder
        self._nodes = torch.arange(guide.window.num_forced + 1, device=state.ids.device)

    def clear(self, slots: Tensor) -> None:
        """Forget what `slots` int64 [B] drafted, but for the tokens."""
        self._proposals.clear(slots)

    def draft(
        self, query: Query, verified: Verified, taps: Tensor, num_slots: int, window: DraftWindow
    ) -> None:
        """Draft K tokens greedily over allowed ones, each behind what its predecessor forces; K and
        F of `window`. Where K is 0 the callbacks make the chains by themselves.

        Without forced tokens nothing waits for the last draft's row, and taking it is left to the
        next iteration.
        """
        self._guide.launch(1, num_slots)
        if window.num_model == 0:
            return self._wait_proposals()
        slots, num_accepted = query.slots, verified.num_accepted
        normed, hidden = self._passes.refresh(query, taps, verified.tokens, num_accepted)
        before = torch.zeros_like(num_accepted)
        span_len = window.num_forced  # behind the golden token nothing but what is forced
        for draft in range(1, window.num_model + 1):
            self._wait_proposals()
            chain_len = self._chain_len[slots].clone()
            if span_len:
                normed, hidden = self._passes.draft_spans(
                    self._spans(slots, before, span_len),
                    chain_len - before,
                    normed,
                    hidden,
                    self._state.lengths[slots] + before,
                    slots,
                )
            logits = self._passes.draft_logits(normed)
            self._recorder.forward(f"draft {draft}")
            self._sampler.append(logits, slots, chain_len, num_accepted, self._passes.target_ids)
            self._recorder.forward(f"choose {draft}")
            if draft == window.num_model and not window.num_forced:
                return
            self._guide.launch(draft + 1, num_slots)
            before, span_len = chain_len, window.num_forced + 1
        self._wait_proposals()

    def _spans(self, slots: Slots, before: Tensor, span_len: int) -> Tensor:
        """The tokens behind the first `before` int32 [B] drafts, int32 [B, span_len]; beyond the
        chain any token."""
        nodes = before[:, None] + 1 + self._nodes[:span_len]
        return self._tokens[slots].gather(1, nodes.clamp(max=self._tokens.shape[1] - 1))

    def _wait_proposals(self) -> None:
        self._guide.announce_wait()
        self._guide.wait_rows()
