"""Owns the one-model iteration: verify K drafts, accept, draft the next K, with the grammar beside
it.

The forward stream's work is the code below, in order; `grammar.launch` forks the grammar stream
and `grammar.wait_rows` joins it. One walk serves both models: row j of a slot is filled once, when
node j becomes known, and read twice, by the drafter to choose node j + 1 and by the target to
verify it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

import torch
from torch import Tensor

from specguide.batch import Batch, Chunk, Piggyback
from specguide.draft_layout import NO_DRAFTS, IterationLayouts
from specguide.guided.stream import GrammarStream
from specguide.kernels import on_device
from specguide.piggyback import NEVER_PIGGYBACK, PiggybackLimits, num_graph_slots
from specguide.sampling import RequestProcessors
from specguide.slots import Slots, SlotTable
from specguide.speculation.drafting import DraftingParts
from specguide.speculation.forward_input import ForwardInput, prefill_input
from specguide.speculation.graphs import CapturedIterations, EagerIterations
from specguide.speculation.nodes import Nodes
from specguide.speculation.passes import ForwardPasses
from specguide.speculation.prefill_plan import (
    PIGGYBACK_LIMITS,
    PrefillPlan,
    ScoredTokens,
    captured_size,
    captured_sizes,
    largest_plan,
    pack,
)
from specguide.speculation.protocol import StepOptions
from specguide.speculation.results import PendingOutput, ResultRing, VerifyOutput
from specguide.speculation.sampler import Sampler
from specguide.speculation.selection import (
    BatchTensors,
    Sampling,
    SamplingKind,
    all_used,
    graph_sizes,
)
from specguide.speculation.shapes import shape_of
from specguide.speculation.warm_up import WarmUps, decode_kinds, prefills_without_requests, runs

_MOST_CHUNKS = 64
"""Of prompts beside a decode iteration that is not captured."""


class OneModelStep:
    """Target, drafter, grammar and sampling as one iteration. Without a drafter and proposals it is
    the plain step.

    On a GPU a decode iteration is one CUDA graph, of which there are a few for batches of different
    sizes, and so is a prefill of few tokens, filled up to the next size. `launch`, `leave` and
    `warm_ups` are those of `Step`.

    A decode iteration may compute chunks of other requests' prompts in the target's same pass. An
    iteration may draft less than the whole layout, one of its levels; the next one then verifies
    as much. A prefill drafts `first_level`, of which no more is verified.
    """

    def __init__(
        self,
        passes: ForwardPasses,
        sampler: Sampler,
        state: SlotTable,
        grammar: GrammarStream,
        options: StepOptions,
    ) -> None:
        self._passes, self._state, self._grammar = passes, state, grammar
        self._layout = layout = grammar.layout
        num_slots, num_nodes = len(state.ids), layout.num_drafts + 1
        self._is_adaptive, self._all = options.adaptive, IterationLayouts(layout, layout)
        first = layout.first_level if options.adaptive else layout
        self._prefill_layouts = IterationLayouts(NO_DRAFTS, first)  # of a prefill
        self._max_batch_size = self._spare_slot = num_slots - 1
        stream, self._recorder = grammar.forward.torch, grammar.recorder
        self._fixed: EagerIterations | None = None  # runs iterations of fixed sizes
        if stream is not None:
            self._fixed = (
                EagerIterations()
                if options.enforce_eager
                else CapturedIterations(stream, grammar.recorder)
            )
        drafting = options.drafting or shape_of(layout).drafting
        self._drafting = drafting(DraftingParts(passes, sampler, state, grammar))
        self._filled = replace(
            PIGGYBACK_LIMITS, max_slots=self._max_batch_size, nodes_each=num_nodes
        )
        self.piggyback_limits = NEVER_PIGGYBACK
        if options.mixed and self._fixed is None:
            self.piggyback_limits = PiggybackLimits(_MOST_CHUNKS)
        elif options.mixed and not options.adaptive:  # whose levels would each need graphs of it
            self.piggyback_limits = self._filled
        self._plan = torch.zeros(
            largest_plan(num_slots), dtype=torch.int64, device=state.ids.device
        )
        self._results = ResultRing(options.lag + 1, self._max_batch_size, num_nodes, stream)
        self._selection = BatchTensors(state.lengths.device)

    @torch.inference_mode()
    def launch(self, batch: Batch, processed: Mapping[int, RequestProcessors]) -> PendingOutput:
        """Start one iteration, whose snapshot the grammar has. B requests; N = 1 node each in a
        prefill, when decoding as many as were drafted and one.

        On a GPU it returns at once. lag + 1 iterations may be under way before the first one's
        result is read.
        """
        levels = batch.levels or self._all
        with self._grammar.forward.current(), self._recorder.host("launch"):
            self._recorder.begin_iteration("prefill" if batch.is_prefill else "decode")
            slots, sampling = self._selection.of(batch, processed)
            if batch.is_prefill:
                return self._results.put(
                    self._prefill(batch, slots, sampling), range(len(batch.slots))
                )
            self._enter(batch)
            if self._fixed is None or sampling.processed:
                prompts = self._prompts_exactly(batch.piggyback)
                return self._results.put(
                    self._decode(slots, sampling, levels, prompts), range(len(batch.slots))
                )
            return self._results.put(self._decode_sized(batch, sampling, levels), batch.slots)

    def _enter(self, batch: Batch) -> None:
        """What a decode iteration changes of the slots before it runs."""
        self._state.grow(batch)
        if batch.starts:
            self._drafting.clear(self._state.start(batch))
        self._state.piggyback(batch.piggyback)

    def leave(self, slot: int) -> None:
        """A request has finished: from now on its slot stores and accepts nothing."""
        with self._grammar.forward.current():
            self._state.leave(slot)

    def forget_graphs(self) -> None:
        """As Step's."""
        if self._fixed is not None:
            self._fixed.forget()

    def warm_ups(self, max_prefill_tokens: int, max_model_len: int) -> WarmUps:
        """What captures all graphs and compiles all kernels that requests may need; nothing on a
        CPU.

        No slot may have a request while one runs.
        """
        if self._fixed is None:
            return WarmUps()
        sizes = self._max_batch_size, max_prefill_tokens, max_model_len
        prefills = prefills_without_requests(
            self._grammar, self._prefill_exactly, self._state.ids.device, *sizes
        )
        if not isinstance(self._fixed, CapturedIterations):
            return WarmUps((*prefills, self._forget_rehearsals))
        kinds = [
            (*kind, levels)
            for kind in decode_kinds(self._max_batch_size)
            for levels in self._levels(kind[0])
        ]
        prefill_kinds = product(captured_sizes(self._max_batch_size, max_prefill_tokens))
        mixed_kinds = [
            (num_slots, SamplingKind.SAMPLED, self._all, num_tokens)
            for num_slots in graph_sizes(self._max_batch_size)
            if num_slots == self.piggyback_limits.num_slots(num_slots - 1)
            for num_tokens in reversed(
                self.piggyback_limits.beside(num_slots - 1).sizes_within(max_prefill_tokens)
            )
        ]
        iterations = (
            *runs(self._grammar, partial(self._decode_mixed, [], []), mixed_kinds),
            *runs(self._grammar, partial(self._fixed.run, self._decode_leading), kinds),
            *runs(self._grammar, partial(self._prefill_sized, [], []), prefill_kinds),
        )
        rehearsals = (*prefills, *iterations, self._forget_rehearsals)
        return WarmUps(rehearsals, iterations)  # the first of a kind runs as it is

    @torch.inference_mode()
    def _forget_rehearsals(self) -> None:
        """What was accepted then, by kernels that may not have run, has been counted for slots
        without requests."""
        with self._grammar.forward.current():
            self._state.adjustments.clear(slice(None))

    def _levels(self, num_slots: int) -> list[IterationLayouts]:
        """That come up where the slots 0 … num_slots - 1 have requests."""
        if not self._is_adaptive:
            return [self._all]
        return [
            IterationLayouts(*pair)
            for pair in product(self._layout.levels_for(num_slots), repeat=2)
        ]

    def _prefill(self, batch: Batch, slots: Tensor, sampling: Sampling) -> VerifyOutput:
        self._state.enter(batch, slots)
        self._drafting.clear(slots)
        size = None
        if (
            self._fixed is not None
            and sampling.kind <= SamplingKind.SAMPLED
            and not sampling.processed
            and not any(chunk.scored_ids for chunk in batch.chunks)
        ):
            num_tokens = sum(len(chunk.token_ids) for chunk in batch.chunks)
            size = captured_size(len(batch.slots), num_tokens, self._max_batch_size)
        if size is None:
            return self._prefill_exactly(batch.chunks, batch.slots, sampling)
        return self._prefill_sized(batch.chunks, batch.slots, size)

    def _prefill_exactly(
        self, chunks: Sequence[Chunk], slots: Sequence[int], sampling: Sampling
    ) -> VerifyOutput:
        device, longest = self._state.ids.device, max(len(chunk.token_ids) for chunk in chunks)
        plan = PrefillPlan.exact(chunks, slots, device)
        return self._prefill_plan(
            plan, longest, sampling, max(slots) + 1, ScoredTokens.of(chunks, device)
        )

    def _prefill_sized(
        self, chunks: Sequence[Chunk], slots: Sequence[int], size: tuple[int, int]
    ) -> VerifyOutput:
        """Filled up to a size for which there is, or will be, a graph; it does for greedy requests
        and others."""
        assert self._fixed is not None
        self._upload(chunks, slots, size)
        return self._fixed.run(self._prefill_packed, *size)

    def _prompts_exactly(self, piggyback: Piggyback) -> ForwardInput | None:
        """What a decode iteration computes beside; None: nothing."""
        if not piggyback.chunks:
            return None
        plan = PrefillPlan.exact(piggyback.chunks, piggyback.slots, self._state.ids.device)
        longest = max(len(chunk.token_ids) for chunk in piggyback.chunks)
        return prefill_input(self._state, plan, longest)

    def _decode_sized(
        self, batch: Batch, sampling: Sampling, levels: IterationLayouts
    ) -> VerifyOutput:
        """Over the first slots, for whose number there is, or will be, a graph; what is computed
        beside is filled up to a size."""
        assert self._fixed is not None
        piggyback, highest_slot = batch.piggyback, max(batch.slots)
        if not piggyback.chunks:
            num_slots = num_graph_slots(highest_slot, self._max_batch_size)
            return self._fixed.run(self._decode_leading, num_slots, sampling.kind, levels)
        kind = (
            SamplingKind.SAMPLED if sampling.kind <= SamplingKind.SAMPLED else SamplingKind.SCORED
        )
        num_slots = self._filled.num_slots(highest_slot)
        num_tokens = self._filled.beside(highest_slot).size_for(piggyback.num_tokens)
        return self._decode_mixed(
            piggyback.chunks, piggyback.slots, num_slots, kind, levels, num_tokens
        )

    def _decode_mixed(
        self,
        chunks: Sequence[Chunk],
        slots: Sequence[int],
        num_slots: int,
        kind: SamplingKind,
        levels: IterationLayouts,
        num_tokens: int,
    ) -> VerifyOutput:
        """The first `num_slots`, and chunks of other slots filled up to `num_tokens`."""
        assert self._fixed is not None
        self._upload(chunks, slots, (PIGGYBACK_LIMITS.max_chunks, num_tokens))
        return self._fixed.run(self._decode_beside, num_slots, kind, levels, num_tokens)

    def _upload(self, chunks: Sequence[Chunk], slots: Sequence[int], size: tuple[int, int]) -> None:
        """Write a plan of so many requests and tokens to where captured passes read it."""
        values = on_device(pack(chunks, slots, size, self._spare_slot), self._plan.device)
        self._plan[: len(values)].copy_(values)

    def _prefill_packed(self, num_requests: int, num_tokens: int) -> VerifyOutput:
        """What the first values of the plan say."""
        plan = PrefillPlan.of(self._plan, num_requests, num_tokens)
        sampling = all_used(SamplingKind.SAMPLED, self._plan.device)
        return self._prefill_plan(plan, num_tokens, sampling, self._max_batch_size)

    def _prefill_plan(
        self,
        plan: PrefillPlan,
        max_query_len: int,
        sampling: Sampling,
        num_slots: int,
        scored: ScoredTokens | None = None,
    ) -> VerifyOutput:
        self._grammar.launch(0, num_slots)
        inputs = prefill_input(self._state, plan, max_query_len, scored)
        verified = self._iterate(
            self._drafting.golden(inputs), sampling, num_slots, self._prefill_layouts
        )
        active = self._state.active
        active[plan.slots] = active[plan.slots] & (
            verified.num_accepted >= 0
        )  # else it starts again
        return verified

    def _decode_leading(
        self, num_slots: int, kind: SamplingKind, levels: IterationLayouts
    ) -> VerifyOutput:
        """Slots 0 … num_slots - 1, whichever of them have requests."""
        return self._decode(slice(0, num_slots), all_used(kind, self._state.ids.device), levels)

    def _decode_beside(
        self, num_slots: int, kind: SamplingKind, levels: IterationLayouts, num_tokens: int
    ) -> VerifyOutput:
        """As `_decode_leading`, with the chunks of prompts that the plan says."""
        plan = PrefillPlan.of(self._plan, PIGGYBACK_LIMITS.max_chunks, num_tokens)
        prompts = prefill_input(self._state, plan, num_tokens)
        sampling = all_used(kind, self._state.ids.device)
        return self._decode(slice(0, num_slots), sampling, levels, prompts)

    def _decode(
        self,
        slots: Slots,
        sampling: Sampling,
        levels: IterationLayouts,
        prompts: ForwardInput | None = None,
    ) -> VerifyOutput:
        num_slots = slots.stop if isinstance(slots, slice) else len(self._state.lengths)
        self._grammar.launch(0, num_slots, levels.verified.num_nodes)
        nodes = self._drafting.nodes(slots, levels.verified)
        return self._iterate(nodes, sampling, num_slots, levels, prompts)

    def _iterate(
        self,
        nodes: Nodes,
        sampling: Sampling,
        num_slots: int,
        levels: IterationLayouts,
        prompts: ForwardInput | None = None,
    ) -> VerifyOutput:
        """prompts: computed in the target's same pass; nothing is verified of them"""
        self._recorder.forward("prepare")
        inputs, layout, passes = nodes.inputs, levels.drafted, self._passes
        hidden, features, beside = passes.target(inputs, prompts, has_aux=layout.num_model > 0)
        self._grammar.announce_wait()
        is_greedy = sampling.kind is SamplingKind.GREEDY and not sampling.processed
        logits = (passes.target_share if is_greedy else passes.target_logits)(inputs, hidden)
        self._recorder.forward("target forward")
        self._grammar.wait_rows()
        accepted = self._drafting.verify(logits, nodes, features, sampling)
        verified = accepted.verified
        self._recorder.forward("verify")
        if layout.num_drafts:
            self._drafting.draft(accepted._replace(beside=beside), num_slots, layout)
        else:
            passes.store(beside)
            if self._layout.num_drafts:
                self._drafting.drop(inputs.slots, verified.num_accepted)
        return verified._replace(prompt_scores=passes.score_prompts(inputs, hidden))
