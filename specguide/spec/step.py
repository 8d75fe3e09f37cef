"""Owns the one-model iteration for chains: verify K drafts, accept, draft the next K, with the grammar beside it.

The forward stream's work is the code below, in order; `guide.launch` forks the grammar stream and `guide.wait_rows`
joins it. One walk serves both models: row j of a slot is filled once, when node j becomes known, and read twice, by
the drafter to choose node j + 1 and by the target to verify it.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from specguide.batch import Batch, GuideSnapshot
from specguide.cache import KVCache
from specguide.guided.decoder import GuidedDecoder
from specguide.kernels import masked_argmax, masked_sample
from specguide.models import Decoder, Eagle3Head
from specguide.request import Request
from specguide.sampling import SamplingTensors, verify_chain
from specguide.spec.forced import ForcedAcceptance
from specguide.spec.graphs import DecodeGraphs
from specguide.spec.results import PendingOutput, ResultRing
from specguide.spec.slots import Query, SlotState


class OneModelStep:
    """Target, drafter, grammar and sampling as one iteration. Without a drafter it is the plain step (K = 0).

    cache, draft_cache: one page table addresses both

    On a GPU a decode iteration is one CUDA graph, of which there are a few for batches of different sizes.
    """

    def __init__(self, target: Decoder, cache: KVCache, state: SlotState, guide: GuidedDecoder,
                 lag: int, drafter: Eagle3Head | None = None, draft_cache: KVCache | None = None,
                 forced: ForcedAcceptance | None = None) -> None:
        self._target, self._cache, self._state, self._guide = target, cache, state, guide
        self._drafter, self._draft_cache, self._forced = drafter, draft_cache, forced
        self._tapped_layers = drafter.tapped_layers if drafter else ()
        max_batch_size, self._num_nodes = guide.buffers.tokens.shape
        stream = guide.forward_stream
        self._recorder = guide.recorder
        self._graphs = DecodeGraphs(self._decode, stream, max_batch_size, guide.recorder) if stream else None
        self._results = ResultRing(lag + 1, max_batch_size, self._num_nodes, stream)
        self._requests: tuple[Request, ...] = ()

    @torch.inference_mode()
    def launch(self, batch: Batch) -> PendingOutput:
        """Start one iteration. B requests; N = 1 node each in a prefill, K + 1 when decoding.

        On a GPU it returns at once. lag + 1 iterations may be under way before the first one's result is read.
        """
        with self._recorder.host("submit"):
            self._guide.submit(_snapshot(batch))
        with self._on_stream(), self._recorder.host("launch"):
            self._recorder.begin_iteration("prefill" if batch.is_prefill else "decode")
            self._select(batch)
            if batch.is_prefill:
                return self._results.put(*self._prefill(batch), range(len(batch.slots)))
            if self._graphs is None:
                return self._results.put(*self._decode(self._slots, self._sampling), range(len(batch.slots)))
            return self._results.put(*self._graphs.run(max(batch.slots) + 1, self._sampling), batch.slots)

    def leave(self, slot: int) -> None:
        """A request has finished: from now on its slot stores and accepts nothing."""
        with self._on_stream():
            self._state.leave(slot)

    def _on_stream(self) -> AbstractContextManager[object]:
        stream = self._guide.forward_stream
        return torch.cuda.stream(stream) if stream else nullcontext()

    def _select(self, batch: Batch) -> None:
        if batch.requests == self._requests:
            return
        self._requests, device = batch.requests, self._state.lengths.device
        self._slots = torch.tensor(batch.slots, device=device)
        self._sampling = SamplingTensors.from_params(
            [request.params for request in batch.requests], [request.seed for request in batch.requests], device)

    def _prefill(self, batch: Batch) -> tuple[Tensor, Tensor]:
        self._state.enter(batch, self._slots)
        self._guide.buffers.tokens[self._slots, 1:] = -1
        self._guide.launch(0, max(batch.slots) + 1)
        query = self._state.prefill(batch, self._slots)
        tokens, num_accepted = self._iterate(query, self._sampling, max(batch.slots) + 1)
        self._state.active[self._slots] = self._state.active[self._slots] & (num_accepted >= 0)  # else it starts again
        return tokens, num_accepted

    def _decode(self, slots: Tensor, sampling: SamplingTensors) -> tuple[Tensor, Tensor]:
        """Verify and draft for `slots` int64 [B]; `sampling` says which parameters any of them uses."""
        num_slots = len(slots) if self._graphs else len(self._state.lengths)
        self._guide.launch(0, num_slots)
        tokens = self._guide.buffers.tokens[slots].clamp(min=0)
        return self._iterate(self._state.chain(tokens, self._state.lengths[slots], slots), sampling, num_slots)

    def _iterate(self, query: Query, sampling: SamplingTensors, num_slots: int) -> tuple[Tensor, Tensor]:
        """Target tokens int32 [B, N], of which the first accepted + 1 count, and drafts accepted, int32 [B]."""
        self._recorder.forward("prepare")
        hidden, taps = self._target.forward(query.input_ids, query.context, self._cache, self._tapped_layers)
        logits = self._target.logits(hidden[query.node_index().flatten()])
        self._recorder.forward("target forward")
        self._guide.wait_rows()
        target_tokens = self._sample(logits, query, sampling)
        num_accepted = self._accept(target_tokens, query)
        self._recorder.forward("verify")
        if self._drafter is not None and taps is not None:
            self._draft(self._drafter, query, target_tokens, taps, num_accepted, num_slots)
        return target_tokens, num_accepted

    def _rows(self) -> tuple[Tensor, Tensor]:
        """Bitmask int32 [N · slots, words] and guided uint8 [N · slots]; see `_row_ids`."""
        buffers = self._guide.buffers
        return buffers.bitmask.flatten(0, 1), buffers.guided.flatten()

    def _row_ids(self, slots: Tensor, nodes: Tensor | int) -> Tensor:
        return nodes * self._guide.buffers.guided.shape[1] + slots

    def _sample(self, logits: Tensor, query: Query, sampling: SamplingTensors) -> Tensor:
        """What the target says after every node, int32 [B, N]; -1 where nothing is allowed."""
        nodes = torch.arange(query.num_nodes, device=logits.device)
        rows = self._row_ids(query.slots[:, None], nodes).flatten()
        if sampling.temperature is None:
            tokens = masked_argmax(logits, *self._rows(), rows, None)
        else:
            chosen = self._state.sampling.select(query.slots.repeat_interleave(query.num_nodes), sampling)
            positions = (query.start[:, None] + 1 + nodes).flatten()
            tokens = masked_sample(logits, *self._rows(), rows, chosen, positions)
        return tokens.view(-1, query.num_nodes)

    def _accept(self, target_tokens: Tensor, query: Query) -> Tensor:
        """Take the longest matching path into the slots' state. Drafts accepted, int32 [B]; -1: held."""
        buffers, state, slots = self._guide.buffers, self._state, query.slots
        drafts = buffers.tokens[slots, 1:query.num_nodes]
        if self._forced is not None and query.num_nodes > 1:
            self._forced.apply(target_tokens, drafts, self._allowed(drafts, slots), slots)
        held = (buffers.held[slots] != 0) | ~state.active[slots]
        num_accepted, golden = verify_chain(target_tokens, drafts, held)
        buffers.num_accepted[slots] = num_accepted
        buffers.tokens[slots, 0] = torch.where(held, buffers.tokens[slots, 0], golden)
        state.accept(query, target_tokens, num_accepted)
        return num_accepted

    def _allowed(self, drafts: Tensor, slots: Tensor) -> Tensor:
        """bool [B, K]: the rows allow the drafts."""
        bitmask, guided = self._rows()
        rows = self._row_ids(slots[:, None], torch.arange(drafts.shape[1], device=slots.device))
        words = bitmask[rows, drafts.clamp(min=0) >> 5]
        return ((words >> (drafts & 31)) & 1 != 0) | (guided[rows] == 0)

    def _draft(self, drafter: Eagle3Head, query: Query, target_tokens: Tensor, taps: Tensor, num_accepted: Tensor,
               num_slots: int) -> None:
        """Refresh the drafter from the target's hidden states, then draft K tokens greedily over allowed ones."""
        guide, slots, cache = self._guide, query.slots, self._draft_cache
        assert cache is not None
        guide.launch(1, num_slots)
        next_ids = query.input_ids.roll(-1)
        next_ids[query.node_index()] = target_tokens.clamp(min=0).long()
        hidden = drafter.forward(next_ids, drafter.fuse(taps), query.context, cache)
        hidden = hidden[query.first_node + num_accepted.clamp(min=0)]
        held, position = num_accepted < 0, self._state.lengths[slots]
        for node in range(1, self._num_nodes):
            logits = drafter.draft_logits(hidden)
            self._recorder.forward(f"draft {node}")
            guide.wait_rows()
            drafts = masked_argmax(logits, *self._rows(), self._row_ids(slots, node - 1), drafter.target_ids)
            guide.buffers.tokens[slots, node] = torch.where(held, guide.buffers.tokens[slots, node], drafts)
            self._recorder.forward(f"choose {node}")
            if node + 1 < self._num_nodes:
                guide.launch(node + 1, num_slots)
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
