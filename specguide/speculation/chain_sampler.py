"""Owns the choices of an iteration: what the target says, how much of a chain is accepted, what is
drafted."""

from __future__ import annotations

import torch
from torch import Tensor

from specguide.guided.stream import GrammarStream
from specguide.kernels import BitmaskRows
from specguide.sampling import (
    Failures,
    accept_chains,
    append_drafts,
    process_logits,
    score_tokens,
    store_drafts,
)
from specguide.slots import Slots, SlotTable
from specguide.speculation.query import Query
from specguide.speculation.results import Verified
from specguide.speculation.sampler import Sampler
from specguide.speculation.selection import Sampling, SamplingKind


class ChainSampler:
    """Has the tokens chosen, and writes them and accept counts of the slots."""

    def __init__(self, guide: GrammarStream, state: SlotTable, sampler: Sampler) -> None:
        self._guide, self._state, self._sampler = guide, state, sampler
        self.guided_drafts = sampler.guided_drafts

    def verify(self, logits: Tensor, query: Query, sampling: Sampling) -> Verified:
        """Choose a token after every node and take the longest matching path into the slots' state.

        logits: [B · N, vocab_size]
        """
        drafts = self._drafts(
            query
        ).clone()  # the next ones take their place before the host reads these
        processed, failures = self._process(logits, query, sampling)
        origins = self._origins(query)
        tokens = self._sampler.choose(processed, query, sampling)
        num_accepted = self._accept(tokens, query)
        if sampling.kind >= SamplingKind.ADJUSTED:
            self._state.adjustments.take(self._state.ids[query.slots], tokens, num_accepted)
        scores = score_tokens(logits, tokens) if sampling.kind >= SamplingKind.SCORED else None
        return Verified(tokens, num_accepted, drafts, scores, failures, origins=origins)

    def _process(self, logits: Tensor, query: Query, sampling: Sampling) -> tuple[Tensor, Failures]:
        if not sampling.processed:
            return logits, {}
        return process_logits(logits, self._drafts(query), sampling.processed)

    def _drafts(self, query: Query) -> Tensor:
        """Those that are verified, int32 [B, N - 1]."""
        return self._state.nodes.tokens[query.slots][:, 1 : query.num_nodes]

    def _origins(self, query: Query) -> Tensor | None:
        """Who proposed them, uint8 [B, N - 1]."""
        proposals = self._guide.proposals
        return (
            None
            if proposals is None
            else proposals.origins[query.slots][:, 1 : query.num_nodes].clone()
        )

    def _accept(self, target_tokens: Tensor, query: Query) -> Tensor:
        """Drafts accepted, int32 [B]; -1: held."""
        state, slots = self._state, self._state.ids[query.slots]
        return accept_chains(
            target_tokens,
            slots,
            query.start,
            tokens=state.nodes.tokens,
            late=self._guide.held,
            active=state.active,
            lengths=state.lengths,
            max_lens=state.max_lens,
            end_ids=state.end_ids,
            slot_num_accepted=state.nodes.num_accepted,
        )

    def draft(
        self,
        logits: Tensor,
        slots: Slots,
        node: int,
        num_accepted: Tensor,
        target_ids: Tensor | None,
    ) -> Tensor:
        """The likeliest draft `node` of each slot, int32 [B], -1 for none; a held slot keeps the
        one it has, and one whose request takes fewer drafts has none.

        logits:       [B, draft_vocab_size]
        num_accepted: int32 [B], as `verify` gives it
        target_ids:   int32 [draft_vocab_size]; None where draft ids are target ids
        """
        limits, ids = self._state.drafts, self._state.ids[slots]
        rows = self._guide.node_rows(node - 1, limits.guides[slots])
        drafts = self._sampler.draft(logits, rows, ids, node - 1, target_ids)
        store_drafts(drafts, node, limits.num_model, num_accepted, ids, self._state.nodes.tokens)
        return drafts

    def drop(self, slots: Slots, num_accepted: Tensor) -> None:
        """No drafts for any slot; one that was held keeps those it has."""
        drafts = self._state.nodes.tokens[slots, 1:]
        self._state.nodes.tokens[slots, 1:] = torch.where(num_accepted[:, None] < 0, drafts, -1)

    def append(
        self,
        logits: Tensor,
        slots: Slots,
        chain_len: Tensor,
        num_accepted: Tensor,
        target_ids: Tensor | None,
    ) -> None:
        """The likeliest draft behind the chain of each slot, of `chain_len` int32 [B] drafts, where
        it has room; else as `draft`."""
        proposals, ids = self._guide.proposals, self._state.ids[slots]
        assert proposals is not None
        guides = self._state.drafts.guides[slots]
        rows = BitmaskRows(proposals.draft_rows, proposals.draft_guided, guides)
        drafts = self._sampler.draft(logits, rows, ids, chain_len, target_ids)
        append_drafts(drafts, proposals.chain_len, num_accepted, ids, self._state.nodes.tokens)
