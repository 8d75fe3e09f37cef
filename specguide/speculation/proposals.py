"""Owns chains of drafts of which some come from the host: each behind the token that it follows
from."""

from __future__ import annotations

import torch
from torch import Tensor

from specguide.draft_layout import DraftLayout
from specguide.kernels import BitmaskRows, LogitsShare
from specguide.sampling import append_drafts
from specguide.slots import Slots
from specguide.speculation.chains import Chains
from specguide.speculation.drafting import Accepted, DraftingParts
from specguide.speculation.forward_input import ForwardInput


class ProposedChains(Chains):
    """Makes chains of the drafter's K tokens, if there is a drafter, and of what the callbacks
    propose behind each.

    A chain is that of the golden token: what the grammar forces or was looked up, the drafter's
    first token, what is forced then, and so on, up to W tokens. How long it has become is read on
    the device, after each callback.
    """

    def __init__(self, parts: DraftingParts) -> None:
        super().__init__(parts)
        assert parts.grammar.proposals is not None
        self._proposals = parts.grammar.proposals
        self._span = self._depths[: parts.grammar.layout.num_forced + 1]

    def clear(self, slots: Tensor) -> None:
        self._proposals.clear(slots)

    def draft(self, accepted: Accepted, num_slots: int, layout: DraftLayout) -> None:
        """Draft K tokens greedily over allowed ones, each behind what its predecessor forces; K and
        F of `layout`. Where K is 0 the callbacks make the chains by themselves.

        Without forced tokens nothing waits for the last draft's row, and taking it is left to the
        next iteration.
        """
        verified, inputs, features = accepted
        self._grammar.launch(1, num_slots)
        if layout.num_model == 0:
            return self._wait_proposals()
        slots, num_accepted = inputs.slots, verified.num_accepted
        normed, hidden = self._passes.refresh(inputs, features, verified.tokens, num_accepted)
        before = torch.zeros_like(num_accepted)
        span_len = layout.num_forced  # behind the golden token nothing but what is forced
        for draft in range(1, layout.num_model + 1):
            self._wait_proposals()
            chain_len = self._proposals.chain_len[slots].clone()
            if span_len:
                normed, hidden = self._passes.draft_spans(
                    self._spans(slots, before, span_len),
                    chain_len - before,
                    normed,
                    hidden,
                    self._state.lengths[slots] + before,
                    slots,
                )
            logits = self._passes.draft_share(normed)
            self._grammar.recorder.forward(f"draft {draft}")
            self._append(logits, slots, chain_len, num_accepted)
            self._grammar.recorder.forward(f"choose {draft}")
            if draft == layout.num_model and not layout.num_forced:
                return
            self._grammar.launch(draft + 1, num_slots)
            before, span_len = chain_len, layout.num_forced + 1
        self._wait_proposals()

    def _append(
        self, logits: Tensor | LogitsShare, slots: Slots, chain_len: Tensor, num_accepted: Tensor
    ) -> None:
        """The likeliest draft behind the chain of each slot, of `chain_len` int32 [B] drafts, where
        it has room; else as `choose`."""
        proposals, ids = self._proposals, self._state.ids[slots]
        row_slots = self._state.drafts.row_slots[slots]
        rows = BitmaskRows(proposals.draft_rows, proposals.draft_guided, row_slots)
        drafts = self._sampler.draft(logits, rows, ids, chain_len, self._passes.target_ids)
        append_drafts(drafts, proposals.chain_len, num_accepted, ids, self._tokens)

    def _origins(self, inputs: ForwardInput) -> Tensor | None:
        return self._proposals.origins[inputs.slots][:, 1 : inputs.num_nodes].clone()

    def _spans(self, slots: Slots, before: Tensor, span_len: int) -> Tensor:
        """The tokens behind the first `before` int32 [B] drafts, int32 [B, span_len]; beyond the
        chain any token."""
        nodes = before[:, None] + 1 + self._span[:span_len]
        return self._tokens[slots].gather(1, nodes.clamp(max=self._tokens.shape[1] - 1))

    def _wait_proposals(self) -> None:
        self._grammar.announce_wait()
        self._grammar.wait_rows()
