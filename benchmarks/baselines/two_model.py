"""Owns the two-model iteration: target and drafter as passes of their own, and the host between
them.

This is the arrangement that one-model speculation is compared with. Its outputs are the same; what
differs is when things happen: nothing of the grammar runs beside a forward pass, and every token
goes through the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.baselines.limits import check_chains
from benchmarks.baselines.pass_graphs import PassGraphs
from specguide.batch import Batch, Chunk
from specguide.errors import InvalidParams
from specguide.guided.grammar_stream.stream import GrammarStream
from specguide.piggyback import NEVER_PIGGYBACK, num_graph_slots
from specguide.sampling import RequestProcessors
from specguide.slots import SlotTable
from specguide.speculation import Sampler, StepOptions
from specguide.speculation.batch_sampling import (
    BatchSampling,
    Sampling,
    SamplingKind,
    all_used,
)
from specguide.speculation.chains import Chains
from specguide.speculation.drafting import DraftingParts
from specguide.speculation.forward_input import ForwardInput, chain_input, prefill_input
from specguide.speculation.passes import ForwardPasses
from specguide.speculation.prefill_plan import PrefillPlan, ScoredTokens
from specguide.speculation.results import PendingOutput, ResultRing, VerifyOutput
from specguide.speculation.warm_up import WarmUps, decode_kinds, prefills_without_requests, runs

Pass = Callable[..., tuple[Tensor, Tensor]]


class TwoModelStep:
    """Verify, accept and draft as `OneModelStep` does, from the host.

    On a GPU the target's verification, the drafter's refresh and its draft step are a CUDA graph
    each; sampling and acceptance run between them. The host waits for each pass, has the rows
    computed, and reads the tokens back before the drafter takes them.

    It knows chains of a draft head or model, always drafts all, and computes nothing beside.
    """

    piggyback_limits = NEVER_PIGGYBACK

    def __init__(
        self,
        passes: ForwardPasses,
        sampler: Sampler,
        state: SlotTable,
        grammar: GrammarStream,
        options: StepOptions,
    ) -> None:
        check_chains(grammar.layout, "the two-model step knows")
        if not grammar.layout.num_model or options.adaptive:
            raise InvalidParams(
                "the two-model step drafts with a draft head or model, and always all", param="spec"
            )
        self._passes, self._state, self._grammar = passes, state, grammar
        self._guided_drafts = sampler.guided_drafts
        self._chains = Chains(DraftingParts(passes, sampler, state, grammar))
        num_slots, self._num_nodes = state.nodes.tokens.shape
        self._max_batch_size = num_slots - 1  # the last one is spare
        self._stream, self._recorder = grammar.forward.torch, grammar.recorder
        self._results = ResultRing(
            options.lag + 1, self._max_batch_size, self._num_nodes, self._stream
        )
        self._batch_sampling = BatchSampling(state.lengths.device)
        self._num_slots = 0
        self._graph_stream = None if options.enforce_eager else self._stream
        pool = torch.cuda.graph_pool_handle() if self._graph_stream else None
        self._target_chain = PassGraphs(self._target, self._graph_stream, pool)
        self._refresh_chain = PassGraphs(self._refresh, self._graph_stream, pool)
        self._draft_next = PassGraphs(self._draft_on, self._graph_stream, pool)

    @torch.inference_mode()
    def launch(self, batch: Batch, processed: Mapping[int, RequestProcessors]) -> PendingOutput:
        """Run one iteration, whose snapshot the grammar has. B requests; N = 1 node each in a
        prefill, K + 1 when decoding, whatever the batch's levels are."""
        with self._grammar.forward.current(), self._recorder.host("launch"):
            self._recorder.begin_iteration("prefill" if batch.is_prefill else "decode")
            sampling = self._batch_sampling.of(batch, processed)
            self._num_slots = num_graph_slots(max(batch.slots), self._max_batch_size)
            if batch.is_prefill:
                return self._results.put(self._prefill(batch, sampling), range(len(batch.slots)))
            self._state.change(batch)
            if self._stream is None or sampling.processed:
                slots = self._batch_sampling.slots
                return self._results.put(self._decode(slots, sampling), range(len(batch.slots)))
            return self._results.put(
                self._decode(self._state.ids[: self._num_slots], sampling), batch.slots
            )

    def leave(self, slots: Sequence[int]) -> None:
        """See `Step`."""
        with self._grammar.forward.current():
            self._state.leave(slots)

    def forget_graphs(self) -> None:
        """See `Step`."""
        for graphs in (self._target_chain, self._refresh_chain, self._draft_next):
            graphs.forget()

    def warm_ups(self, max_prefill_tokens: int, max_model_len: int) -> WarmUps:
        """See `Step`; nothing on a CPU."""
        if self._stream is None:
            return WarmUps()
        sizes = self._max_batch_size, max_prefill_tokens, max_model_len
        warm_ups = prefills_without_requests(
            self._grammar, self._prefill_exactly, self._state.ids.device, *sizes
        )
        if self._graph_stream is not None:
            # an iteration may capture a pass that it has run before
            kinds = [kind for kind in decode_kinds(self._max_batch_size) for _ in range(2)]
            warm_ups += runs(self._grammar, self._decode_leading, kinds)
        # as requests are put into their slots, of one that never has any
        warm_ups.append(partial(self.leave, [self._max_batch_size]))
        return WarmUps(captures=warm_ups)

    def _decode_leading(self, num_slots: int, kind: SamplingKind) -> VerifyOutput:
        """Slots 0 … num_slots - 1, whichever of them have requests."""
        self._num_slots = num_slots
        return self._decode(self._state.ids[:num_slots], all_used(kind, self._state.ids.device))

    def _prefill(self, batch: Batch, sampling: Sampling) -> VerifyOutput:
        self._state.enter(batch)
        slots = self._batch_sampling.slots
        verified = self._prefill_exactly(batch.chunks, batch.slots, sampling)
        is_accepted = verified.num_accepted >= 0  # else it starts again
        self._state.active[slots] = self._state.active[slots] & is_accepted
        return verified

    def _prefill_exactly(
        self, chunks: Sequence[Chunk], slots: Sequence[int], sampling: Sampling
    ) -> VerifyOutput:
        self._num_slots = max(slots) + 1
        device = self._state.ids.device
        longest = max(len(chunk.token_ids) for chunk in chunks)
        plan = PrefillPlan.exact(chunks, slots, self._state.sizes.num_axes, device)
        inputs = prefill_input(self._state, plan, longest, ScoredTokens.of(chunks, device))
        return self._iterate(inputs, plan.slots, sampling)

    def _iterate(self, inputs: ForwardInput, slots: Tensor, sampling: Sampling) -> VerifyOutput:
        hidden, aux_hidden_states, _ = self._passes.target(inputs)
        verified = self._verify(self._passes.target_logits(inputs, hidden), inputs, sampling)
        self._draft(
            slots, verified, partial(self._first_draft, inputs, aux_hidden_states), self._draft_on
        )
        return verified._replace(prompt_scores=self._passes.score_prompts(inputs, hidden))

    def _decode(self, slots: Tensor, sampling: Sampling) -> VerifyOutput:
        """Verify and draft for `slots` int64 [B]."""
        tokens = _via_host(self._state.nodes.tokens[slots])
        inputs, logits, aux_hidden_states = self._target_chain(
            tokens, self._state.lengths[slots], slots
        )
        verified = self._verify(logits, inputs, sampling)
        refresh = partial(self._refresh_chain, tokens, inputs.start, slots, aux_hidden_states)
        self._draft(slots, verified, refresh, self._draft_next)
        return verified

    def _verify(self, logits: Tensor, inputs: ForwardInput, sampling: Sampling) -> VerifyOutput:
        self._synchronize("target forward")
        self._compute_rows(0)
        nodes = self._chains.golden(inputs)
        accepted = self._chains.verify(logits, nodes, logits, sampling)
        self._recorder.forward("verify")
        return accepted.verified

    def _draft(
        self, slots: Tensor, verified: VerifyOutput, refresh: Pass, draft_next: Pass
    ) -> None:
        target_tokens, num_accepted = _via_host(verified.tokens), _via_host(verified.num_accepted)
        position = self._state.lengths[slots]
        logits, hidden = refresh(target_tokens, num_accepted)
        for node in range(1, self._num_nodes):
            self._synchronize(f"draft {node}")
            if self._guided_drafts:
                self._compute_rows(node)
            drafts = _via_host(self._chains.choose(logits, slots, node, num_accepted))
            self._recorder.forward(f"choose {node}")
            if node + 1 < self._num_nodes:
                logits, hidden = draft_next(drafts, hidden, position + node - 1, slots)
        if not self._guided_drafts:
            for node in range(1, self._num_nodes):
                self._compute_rows(node)

    def _target(
        self, tokens: Tensor, start: Tensor, slots: Tensor
    ) -> tuple[ForwardInput, Tensor, Tensor]:
        inputs = chain_input(self._state, tokens, start, slots)
        hidden, aux_hidden_states, _ = self._passes.target(inputs)
        return inputs, self._passes.target_logits(inputs, hidden), aux_hidden_states

    def _refresh(
        self,
        tokens: Tensor,
        start: Tensor,
        slots: Tensor,
        aux_hidden_states: Tensor,
        target_tokens: Tensor,
        num_accepted: Tensor,
    ) -> tuple[Tensor, Tensor]:
        return self._first_draft(
            chain_input(self._state, tokens, start, slots),
            aux_hidden_states,
            target_tokens,
            num_accepted,
        )

    def _first_draft(self, *arguments: Any) -> tuple[Tensor, Tensor]:
        """Draft logits, and the features to go on from."""
        normed, hidden = self._passes.refresh(*arguments)
        return self._passes.draft_logits(normed), hidden

    def _draft_on(self, *arguments: Any) -> tuple[Tensor, Tensor]:
        normed, hidden = self._passes.draft(*arguments)
        return self._passes.draft_logits(normed), hidden

    def _compute_rows(self, callback: int) -> None:
        """Run a grammar callback and wait for it; no forward pass is under way."""
        self._grammar.launch(callback, self._num_slots)
        self._grammar.wait_rows()
        self._synchronize(f"rows {callback}")

    def _synchronize(self, name: str) -> None:
        self._recorder.forward(name)
        if self._stream is not None:
            self._stream.synchronize()


def _via_host(tokens: Tensor) -> Tensor:
    """As the host feeds back what it has read."""
    return tokens.cpu().to(tokens.device)
