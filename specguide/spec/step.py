"""Owns the one-model iteration for chains: verify K drafts, accept, draft the next K, with the grammar beside it.

The forward stream's work is the code below, in order; `guide.launch` forks the grammar stream and `guide.wait_rows`
joins it. One walk serves both models: row j of a slot is filled once, when node j becomes known, and read twice, by
the drafter to choose node j + 1 and by the target to verify it.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from specguide.batch import Batch, Chunk
from specguide.guided.decoder import GuidedDecoder
from specguide.spec.chain_sampler import ChainSampler
from specguide.spec.graphs import DecodeGraphs, EagerDecode
from specguide.spec.passes import ForwardPasses
from specguide.spec.proposals import ProposedChains
from specguide.spec.results import PendingOutput, ResultRing, Verified
from specguide.spec.selection import Sampling, SamplingKind, Selection, all_used, guide_snapshot, num_graph_slots
from specguide.spec.slots import Query, Slots, SlotState
from specguide.spec.warm_up import GraphKind, PrefillKind, graph_kinds, prefill_kinds, run_idle


class OneModelStep:
    """Target, drafter, grammar and sampling as one iteration. Without a drafter and proposals it is the plain step.

    On a GPU a decode iteration is one CUDA graph, of which there are a few for batches of different sizes.

    enforce_eager: never capture any
    """

    def __init__(self, passes: ForwardPasses, sampler: ChainSampler, state: SlotState, guide: GuidedDecoder, lag: int,
                 *, enforce_eager: bool = False) -> None:
        self._passes, self._sampler, self._state, self._guide = passes, sampler, state, guide
        self._max_batch_size, self._num_nodes = guide.buffers.tokens.shape
        stream, self._recorder = guide.forward_stream, guide.recorder
        self._graphs: EagerDecode | None = None
        if stream is not None:
            self._graphs = EagerDecode(self._decode, stream.device) if enforce_eager else DecodeGraphs(
                self._decode, stream, guide.recorder)
        self._proposed = ProposedChains(passes, sampler, state, guide) if guide.window.has_proposals else None
        self._results = ResultRing(lag + 1, self._max_batch_size, self._num_nodes, stream)
        self._selection = Selection(state.lengths.device)

    @torch.inference_mode()
    def launch(self, batch: Batch) -> PendingOutput:
        """Start one iteration. B requests; N = 1 node each in a prefill, K + 1 when decoding.

        On a GPU it returns at once. lag + 1 iterations may be under way before the first one's result is read.
        """
        with self._recorder.host("submit"):
            self._guide.submit(guide_snapshot(batch))
        with self._guide.on_forward_stream(), self._recorder.host("launch"):
            self._recorder.begin_iteration("prefill" if batch.is_prefill else "decode")
            slots, sampling = self._selection.of(batch)
            if batch.is_prefill:
                return self._results.put(self._prefill(batch, slots, sampling), range(len(batch.slots)))
            self._state.grow(batch)
            if self._graphs is None or sampling.processed:
                return self._results.put(self._decode(slots, sampling), range(len(batch.slots)))
            num_slots = num_graph_slots(batch, self._max_batch_size)
            return self._results.put(self._graphs.run(num_slots, sampling.kind), batch.slots)

    def leave(self, slot: int) -> None:
        """A request has finished: from now on its slot stores and accepts nothing."""
        with self._guide.on_forward_stream():
            self._state.leave(slot)

    def graph_kinds(self) -> list[GraphKind]:
        """Graphs that may be captured; none on a CPU."""
        return graph_kinds(self._max_batch_size) if isinstance(self._graphs, DecodeGraphs) else []

    @torch.inference_mode()
    def warm_up(self, kind: GraphKind) -> None:
        """Capture one of `graph_kinds()`. No slot may have a request."""
        assert self._graphs is not None
        # The first run is eager and the second one captures, for every turn of a recorder.
        run_idle(self._guide, partial(self._graphs.run, *kind), 2 * self._recorder.num_turns)

    def prefill_kinds(self, max_prefill_tokens: int, max_model_len: int) -> list[PrefillKind]:
        """Prefills that between them launch all kernels that any can; none on a CPU."""
        if self._graphs is None:
            return []
        return prefill_kinds(self._max_batch_size, max_prefill_tokens, max_model_len)

    @torch.inference_mode()
    def warm_up_prefill(self, num_requests: int, num_tokens: int, kind: SamplingKind) -> None:
        """Run a prefill of so many requests of so many tokens each. No slot may have a request."""
        run_idle(self._guide, partial(self._idle_prefill, num_requests, num_tokens, kind))

    def _idle_prefill(self, num_requests: int, num_tokens: int, kind: SamplingKind) -> None:
        slots = self._state.ids[:num_requests]
        query = self._state.prefill([Chunk([0] * num_tokens, 0)] * num_requests, slots)
        self._guide.launch(0, num_requests)
        self._iterate(query, all_used(kind, slots.device), num_requests)

    def _prefill(self, batch: Batch, slots: Tensor, sampling: Sampling) -> Verified:
        self._state.enter(batch, slots)
        self._guide.buffers.clear_chains(slots)
        num_slots = max(batch.slots) + 1
        self._guide.launch(0, num_slots)
        verified = self._iterate(self._state.prefill(batch.chunks, slots), sampling, num_slots)
        self._state.active[slots] = self._state.active[slots] & (verified.num_accepted >= 0)  # else it starts again
        return verified

    def _decode(self, slots: Slots, sampling: Sampling) -> Verified:
        """Verify and draft for `slots`."""
        num_slots = slots.stop if isinstance(slots, slice) else len(self._state.lengths)
        self._guide.launch(0, num_slots)
        query = self._state.chain(self._guide.buffers.tokens[slots], self._state.lengths[slots], slots)
        return self._iterate(query, sampling, num_slots)

    def _iterate(self, query: Query, sampling: Sampling, num_slots: int) -> Verified:
        self._recorder.forward("prepare")
        hidden, taps = self._passes.target(query)
        self._guide.announce_wait()
        logits = self._passes.target_logits(query, hidden)
        self._recorder.forward("target forward")
        self._guide.wait_rows()
        verified = self._sampler.verify(logits, query, sampling)
        self._recorder.forward("verify")
        if taps is not None:
            draft = self._draft if self._proposed is None else self._proposed.draft
            draft(query, verified.tokens, taps, verified.num_accepted, num_slots)
        elif self._proposed is not None:
            self._proposed.propose(num_slots)
        return verified._replace(prompt_scores=self._passes.score_prompts(query, hidden))

    def _draft(self, query: Query, target_tokens: Tensor, taps: Tensor, num_accepted: Tensor, num_slots: int) -> None:
        """Refresh the drafter from the target's hidden states, then draft K tokens greedily over allowed ones.

        Unguided drafts wait for no row: the walk follows them at its own pace, and is waited for at the end.
        """
        guide, sampler, slots = self._guide, self._sampler, query.slots
        guide.launch(1, num_slots)
        normed, hidden = self._passes.refresh(query, taps, target_tokens, num_accepted)
        lengths = self._state.lengths[slots]
        for node in range(1, self._num_nodes):
            if sampler.guided_drafts:
                guide.announce_wait()
            logits = self._passes.draft_logits(normed)
            self._recorder.forward(f"draft {node}")
            if sampler.guided_drafts:
                guide.wait_rows()
            drafts = sampler.draft(logits, slots, node, num_accepted, self._passes.target_ids)
            self._recorder.forward(f"choose {node}")
            if node + 1 < self._num_nodes:
                guide.launch(node + 1, num_slots)
                normed, hidden = self._passes.draft(drafts, hidden, lengths, slots, node - 1)
        if not sampler.guided_drafts:
            guide.announce_wait()
            guide.wait_rows()
