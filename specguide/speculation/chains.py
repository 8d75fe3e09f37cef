"""Owns chains of drafts: one behind the other, each from a pass of a drafter, with the grammar
beside."""

from __future__ import annotations

import torch
from torch import Tensor

from specguide.draft_layout import DraftLayout
from specguide.sampling import (
    Failures,
    accept_drafts,
    chain_paths,
    process_logits,
    score_tokens,
    store_drafts,
)
from specguide.slots import Slots
from specguide.speculation.drafting import Accepted, DraftingParts, accept_state
from specguide.speculation.nodes import Nodes
from specguide.speculation.query import Query, chain_query
from specguide.speculation.results import VerifyOutput
from specguide.speculation.selection import Sampling, SamplingKind


class Chains:
    """Drafts greedily: over what the rows allow, or where drafts are unguided over all tokens. See
    `Drafting`."""

    def __init__(self, parts: DraftingParts) -> None:
        self._passes, self._sampler, self._state, self._guide = parts
        self._tokens, self._accept_state = self._state.nodes.tokens, accept_state(parts)
        self._depths = torch.arange(self._tokens.shape[1], device=self._state.ids.device)

    def clear(self, slots: Tensor) -> None:
        """The slots' state has forgotten them."""

    def drop(self, slots: Slots, num_accepted: Tensor) -> None:
        drafts = self._tokens[slots, 1:]
        self._tokens[slots, 1:] = torch.where(num_accepted[:, None] < 0, drafts, -1)

    def nodes(self, slots: Slots, layout: DraftLayout) -> Nodes:
        tokens, start = self._tokens[slots, : layout.num_nodes], self._state.lengths[slots]
        return self.golden(chain_query(self._state, tokens, start, slots))

    def golden(self, query: Query) -> Nodes:
        num_nodes = query.num_nodes
        return Nodes(
            query,
            self._guide.chain_rows(query.slots, num_nodes),
            self._depths[:num_nodes],
            lambda: chain_paths(self._drafts(query)),
        )

    def verify(
        self, logits: Tensor, nodes: Nodes, features: Tensor, sampling: Sampling
    ) -> Accepted:
        query = nodes.query
        # The next drafts take the place of these before the host reads them.
        drafts, origins = self._drafts(query).clone(), self._origins(query)
        processed, failures = self._process(logits, query, sampling)
        said = self._sampler.choose(processed, nodes, sampling)
        num_accepted, _ = accept_drafts(
            said, self._state.ids[query.slots], query.start, self._accept_state
        )
        if sampling.kind >= SamplingKind.ADJUSTED:
            self._state.adjustments.take(self._state.ids[query.slots], said, num_accepted)
        scores = score_tokens(logits, said) if sampling.kind >= SamplingKind.SCORED else None
        verified = VerifyOutput(said, num_accepted, drafts, scores, failures, origins=origins)
        return Accepted(verified, query, features)

    def draft(self, accepted: Accepted, num_slots: int, layout: DraftLayout) -> None:
        """Refresh the drafter from the target's hidden states, then draft K tokens.

        Unguided drafts wait for no row: the walk follows them at its own pace, and is waited for at
        the end.
        """
        (verified, query, features), guide = accepted, self._guide
        slots, num_accepted = query.slots, verified.num_accepted
        guide.launch(1, num_slots)
        normed, hidden = self._passes.refresh(query, features, verified.tokens, num_accepted)
        lengths = self._state.lengths[slots]
        for node in range(1, layout.num_model + 1):
            if self._sampler.guided_drafts:
                guide.announce_wait()
            logits = self._passes.draft_logits(normed)
            guide.recorder.forward(f"draft {node}")
            if self._sampler.guided_drafts:
                guide.wait_rows()
            drafts = self.choose(logits, slots, node, num_accepted)
            guide.recorder.forward(f"choose {node}")
            if node < layout.num_model:
                guide.launch(node + 1, num_slots)
                normed, hidden = self._passes.draft(drafts, hidden, lengths, slots, node - 1)
        if not self._sampler.guided_drafts:
            guide.announce_wait()
            guide.wait_rows()

    def choose(self, logits: Tensor, slots: Slots, node: int, num_accepted: Tensor) -> Tensor:
        """The likeliest draft `node` of each slot, int32 [B], -1 for none; a held slot keeps the
        one it has, and one whose request takes fewer drafts has none.

        logits:       [B, draft_vocab_size]
        num_accepted: int32 [B], as verified
        """
        limits, ids = self._state.drafts, self._state.ids[slots]
        rows = self._guide.node_rows(node - 1, limits.row_slots[slots])
        drafts = self._sampler.draft(logits, rows, ids, node - 1, self._passes.target_ids)
        store_drafts(drafts, node, limits.num_model, num_accepted, ids, self._tokens)
        return drafts

    def _process(self, logits: Tensor, query: Query, sampling: Sampling) -> tuple[Tensor, Failures]:
        if not sampling.processed:
            return logits, {}
        return process_logits(logits, self._drafts(query), sampling.processed)

    def _drafts(self, query: Query) -> Tensor:
        """Those that are verified, int32 [B, N - 1]."""
        return self._tokens[query.slots][:, 1 : query.num_nodes]

    def _origins(self, query: Query) -> Tensor | None:
        """Who proposed them, uint8 [B, N - 1]; None: the drafter alone."""
        return None
