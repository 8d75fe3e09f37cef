"""Owns the one-model iteration for chains: verify K drafts, accept, draft the next K, with the grammar beside it.

The forward stream's work is the code below, in order; `guide.launch` forks the grammar stream and `guide.wait_rows`
joins it. One walk serves both models: row j of a slot is filled once, when node j becomes known, and read twice, by
the drafter to choose node j + 1 and by the target to verify it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specguide.batch import Batch, GuideSnapshot, StepOutput
from specguide.cache import KVCache
from specguide.guided.decoder import GuidedDecoder
from specguide.kernels import masked_argmax, masked_sample
from specguide.models import Decoder, Eagle3Head
from specguide.request import Request
from specguide.sampling import SamplingTensors, verify_chain
from specguide.spec.slots import Query, SlotState


class OneModelStep:
    """Target, drafter, grammar and sampling as one iteration. Without a drafter it is the plain step (K = 0).

    cache, draft_cache: one page table addresses both
    """

    def __init__(self, target: Decoder, cache: KVCache, state: SlotState, guide: GuidedDecoder,
                 drafter: Eagle3Head | None = None, draft_cache: KVCache | None = None) -> None:
        self._target, self._cache, self._state, self._guide = target, cache, state, guide
        self._drafter, self._draft_cache = drafter, draft_cache
        self._tapped_layers = drafter.tapped_layers if drafter else ()
        self._num_nodes = guide.tokens.shape[1]
        self._requests: tuple[Request, ...] = ()

    @torch.inference_mode()
    def run(self, batch: Batch) -> StepOutput:
        """One iteration. B requests; N = 1 node each in a prefill, K + 1 when decoding."""
        self._guide.submit(_snapshot(batch))
        self._guide.launch(0)
        self._select(batch)
        query = self._state.prefill(batch, self._slots) if batch.is_prefill else self._verification()
        hidden, taps = self._target.forward(query.input_ids, query.context, self._cache, self._tapped_layers)
        logits = self._target.logits(hidden[query.node_index().flatten()])
        self._guide.wait_rows()
        target_tokens = self._sample(logits, query)
        num_accepted = self._accept(target_tokens, query)
        if self._drafter is not None and taps is not None:
            self._draft(self._drafter, query, target_tokens, taps, num_accepted)
        return StepOutput(tokens=target_tokens.cpu(), num_tokens=(num_accepted + 1).cpu())

    def _select(self, batch: Batch) -> None:
        if batch.requests == self._requests:
            return
        self._requests = batch.requests
        device = self._state.lengths.device
        self._slots = torch.tensor(batch.slots, device=device)
        self._row_ids = self._slots[:, None] * self._num_nodes + torch.arange(self._num_nodes, device=device)
        self._params = [request.params for request in batch.requests]
        self._seeds = [request.seed for request in batch.requests]

    def _verification(self) -> Query:
        tokens = self._guide.tokens[self._slots].clamp(min=0)
        return self._state.chain(tokens, self._state.lengths[self._slots], self._slots)

    def _sample(self, logits: Tensor, query: Query) -> Tensor:
        """What the target says after every node, int32 [B, N]; -1 where nothing is allowed."""
        guide, rows = self._guide, self._row_ids[:, :query.num_nodes].flatten()
        if all(params.temperature == 0 for params in self._params):
            tokens = masked_argmax(logits, guide.bitmask, guide.guided, rows, None)
        else:
            sampling = SamplingTensors.from_params(self._params, self._seeds, logits.device)
            positions = query.start[:, None] + torch.arange(1, query.num_nodes + 1, device=logits.device)
            tokens = masked_sample(logits, guide.bitmask, guide.guided, rows,
                                   sampling.repeat(query.num_nodes), positions.flatten())
        return tokens.view(-1, query.num_nodes)

    def _accept(self, target_tokens: Tensor, query: Query) -> Tensor:
        """Take the longest matching path into the slots' state. Drafts accepted, int32 [B]; -1: held."""
        guide, slots = self._guide, self._slots
        drafts = guide.tokens[slots, 1:query.num_nodes]
        num_accepted, golden = verify_chain(target_tokens, drafts, guide.held[slots])
        live = num_accepted >= 0
        guide.num_accepted[slots] = num_accepted
        guide.tokens[slots, 0] = torch.where(live, golden, guide.tokens[slots, 0])
        self._state.lengths[slots] = torch.where(live, query.start + num_accepted + 1, self._state.lengths[slots])
        return num_accepted

    def _draft(self, drafter: Eagle3Head, query: Query, target_tokens: Tensor, taps: Tensor, num_accepted: Tensor
               ) -> None:
        """Refresh the drafter from the target's hidden states, then draft K tokens greedily over allowed ones."""
        guide, slots, cache = self._guide, self._slots, self._draft_cache
        assert cache is not None
        guide.launch(1)
        next_ids = query.input_ids.roll(-1)
        next_ids[query.node_index()] = target_tokens.clamp(min=0).long()
        hidden = drafter.forward(next_ids, drafter.fuse(taps), query.context, cache)
        hidden = hidden[query.first_node + num_accepted.clamp(min=0)]
        live, position = num_accepted >= 0, self._state.lengths[slots]
        for node in range(1, self._num_nodes):
            logits = drafter.draft_logits(hidden)
            guide.wait_rows()
            drafts = masked_argmax(logits, guide.bitmask, guide.guided, self._row_ids[:, node - 1], drafter.target_ids)
            guide.tokens[slots, node] = torch.where(live, drafts, guide.tokens[slots, node])
            if node + 1 < self._num_nodes:
                guide.launch(node + 1)
                step = self._state.chain(drafts[:, None].clamp(min=0), position + node - 1, slots)
                hidden = drafter.forward(step.input_ids, hidden, step.context, cache)


def _snapshot(batch: Batch) -> GuideSnapshot:
    """A prefill starts its slots' walks, unless it is run again because their first rows were late."""
    def starts(request: Request) -> bool:
        return batch.is_prefill and request.metrics.num_held == 0

    return GuideSnapshot(
        started=tuple((request.slot, request.grammar.matcher() if request.grammar else None)
                      for request in batch.requests if starts(request)),
        continued=tuple(request.slot for request in batch.requests if not starts(request)))
