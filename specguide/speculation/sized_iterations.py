"""Owns iterations that are padded to a few fixed sizes, each of which is one CUDA graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import product

import torch

from specguide.batch import Batch, Chunk
from specguide.drafts.layout import IterationLayouts
from specguide.guided.grammar_stream.stream import GrammarStream
from specguide.kernels import write_from_host
from specguide.kernels.slot_rows import Column, SlotRow
from specguide.piggyback import NEVER_PIGGYBACK, PiggybackLimits, num_graph_slots
from specguide.slots import SlotTable
from specguide.speculation.batch_sampling import Sampling, SamplingKind, all_used, graph_sizes
from specguide.speculation.forward_input import prefill_input
from specguide.speculation.graphs import CapturedIterations, EagerIterations
from specguide.speculation.iteration import Iteration
from specguide.speculation.prefill_plan import (
    ENTERING_PAGES,
    PIGGYBACK_LIMITS,
    PlanSize,
    PrefillPlan,
    captured_size,
    captured_sizes,
    entering_rows,
    largest_plan,
    pack,
)
from specguide.speculation.protocol import StepOptions
from specguide.speculation.results import VerifyOutput
from specguide.speculation.warm_up import WarmUp, decode_kinds, runs

_MOST_CHUNKS = 64
"""Most chunks of prompts in a mixed iteration that is not captured."""


def runner_for(grammar: GrammarStream, options: StepOptions) -> EagerIterations | None:
    """The runner of iterations of fixed sizes; None on a CPU, where all run with exact sizes."""
    stream = grammar.forward.torch
    if stream is None:
        return None
    if options.enforce_eager:
        return EagerIterations()
    return CapturedIterations(stream, grammar.recorder, options.gather)


class SizedIterations:
    """Decode iterations over the first slots, and prefills of few tokens, padded to the next size.

    runner:     runs them; None on a CPU, where there are none
    all_levels: the levels of an iteration that verifies and drafts the whole layout
    piggyback_limits: how many prompt tokens a decode iteration may carry
    """

    def __init__(
        self, iteration: Iteration, state: SlotTable, grammar: GrammarStream, options: StepOptions
    ) -> None:
        self._iteration, self._state, self._grammar = iteration, state, grammar
        self._layout = layout = grammar.layout
        self._is_adaptive = options.adaptive
        self.all_levels = IterationLayouts(layout, layout)
        num_slots = len(state.ids)
        self._max_batch_size = self._spare_slot = num_slots - 1
        self.runner = runner_for(grammar, options)
        limits = replace(PIGGYBACK_LIMITS, max_slots=self._max_batch_size)
        self._filled = {
            level.num_nodes: replace(limits, nodes_each=level.num_nodes) for level in layout.levels
        }
        """The sizes to which chunks are padded, by the number of nodes that are verified."""
        first = layout.first_level if options.adaptive else layout
        self.piggyback_limits = NEVER_PIGGYBACK
        if options.mixed and self.runner is None:
            self.piggyback_limits = PiggybackLimits(_MOST_CHUNKS)
        elif options.mixed:
            self.piggyback_limits = self._filled[first.num_nodes]
        self._row_pages = min(ENTERING_PAGES, state.sizes.max_pages)
        self._num_axes = state.sizes.num_axes
        num_values = largest_plan(num_slots, Column.PAGES + self._row_pages, self._num_axes)
        self._plan = torch.zeros(num_values, dtype=torch.int64, device=state.ids.device)

    def prefill_size(self, batch: Batch, sampling: Sampling) -> tuple[int, int] | None:
        """Numbers of requests and tokens to which a prefill is padded; None: it runs with its exact
        sizes."""
        if (
            self.runner is None
            or sampling.kind > SamplingKind.SAMPLED
            or sampling.processed
            or any(chunk.scored_ids for chunk in batch.chunks)
        ):
            return None
        num_tokens = sum(len(chunk.token_ids) for chunk in batch.chunks)
        return captured_size(len(batch.slots), num_tokens, self._max_batch_size)

    def prefill(
        self,
        chunks: Sequence[Chunk],
        slots: Sequence[int],
        entering: Sequence[SlotRow],
        size: tuple[int, int],
    ) -> VerifyOutput:
        """Prefill, padded to a size that has, or will have, a graph. The same graph serves greedy
        and sampled requests.

        entering: rows to write into the slots first; they travel with the plan, so that a first
                  token waits for only one copy and one launch
        """
        assert self.runner is not None
        if any(len(row.pages or ()) > self._row_pages for row in entering):
            self._state.write(entering)
            entering = ()
        rows = entering_rows(entering, size[0], self._row_pages, self._spare_slot)
        plan = pack(chunks, slots, PlanSize(*size, self._num_axes), self._spare_slot)
        write_from_host(self._plan, [*rows, *plan])
        return self.runner.run(self._prefill_packed, *size)

    def decode(self, batch: Batch, sampling: Sampling, levels: IterationLayouts) -> VerifyOutput:
        """Decode over the first slots; there is, or will be, a graph for their number. Chunks of
        prompts are padded to a size. All decoding requests that have not ended must be in the
        batch, since the graph runs their slots in any case."""
        assert self.runner is not None
        piggyback = batch.piggyback
        highest_slot = max(batch.slots)
        if not piggyback.chunks:
            num_slots = num_graph_slots(highest_slot, self._max_batch_size)
            kind = sampling.kind if levels.are_equal else sampling.kind.in_few_graphs
            return self.runner.run(self.decode_leading, num_slots, kind, levels)
        kind = sampling.kind.in_few_graphs
        filled = self._filled[levels.verified.num_nodes]
        num_slots = filled.num_slots(highest_slot)
        num_tokens = filled.beside(highest_slot).size_for(piggyback.num_tokens)
        return self._decode_mixed(
            piggyback.chunks, piggyback.slots, num_slots, kind, levels, num_tokens
        )

    def decode_leading(
        self, num_slots: int, kind: SamplingKind, levels: IterationLayouts
    ) -> VerifyOutput:
        """Decode slots 0 … num_slots - 1, whichever of them have requests."""
        sampling = all_used(kind, self._state.ids.device)
        return self._iteration.decode(slice(0, num_slots), sampling, levels)

    def captures(self, max_prefill_tokens: int) -> Sequence[WarmUp]:
        """Functions that capture all graphs that requests may need; none where nothing is
        captured."""
        if not isinstance(self.runner, CapturedIterations):
            return ()
        kinds = [
            (num_slots, kind, levels)
            for num_slots, kind in decode_kinds(self._max_batch_size)
            for levels in self._levels(num_slots)
            if levels.are_equal or kind is kind.in_few_graphs
        ]
        prefill_kinds = product(captured_sizes(self._max_batch_size, max_prefill_tokens))
        mixed_kinds = [
            (num_slots, SamplingKind.SAMPLED, levels, num_tokens)
            for num_slots, levels in self._mixed_slots_and_levels()
            for num_tokens in reversed(
                self._filled[levels.verified.num_nodes]
                .beside(num_slots - 1)
                .sizes_within(max_prefill_tokens)
            )
        ]
        return (
            *runs(self._grammar, partial(self._decode_mixed, [], []), mixed_kinds),
            *runs(self._grammar, partial(self.runner.run, self.decode_leading), kinds),
            *runs(self._grammar, partial(self.prefill, [], [], []), prefill_kinds),
        )

    def _levels(self, num_slots: int) -> list[IterationLayouts]:
        """The levels that iterations over slots 0 … num_slots - 1 can have."""
        if not self._is_adaptive:
            return [self.all_levels]
        return [
            IterationLayouts(*pair)
            for pair in product(self._layout.levels_for(num_slots), repeat=2)
        ]

    def _mixed_slots_and_levels(self) -> Iterable[tuple[int, IterationLayouts]]:
        """The numbers of slots and levels that mixed iterations can have: they never change the
        level."""
        if not self.piggyback_limits.sizes:
            return ()
        return dict.fromkeys(
            (self.piggyback_limits.num_slots(num_slots - 1), levels)
            for num_slots in graph_sizes(self._max_batch_size)
            for levels in self._levels(num_slots)
            if levels.are_equal
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
        """Decode the first `num_slots`, with chunks of other slots padded to `num_tokens`."""
        assert self.runner is not None
        size = PlanSize(PIGGYBACK_LIMITS.max_chunks, num_tokens, self._num_axes)
        write_from_host(self._plan, pack(chunks, slots, size, self._spare_slot))
        return self.runner.run(self._decode_beside, num_slots, kind, levels, num_tokens)

    def _prefill_packed(self, num_requests: int, num_tokens: int) -> VerifyOutput:
        """Prefill what the packed values say: first rows of slots, then a plan."""
        num_columns = Column.PAGES + self._row_pages
        num_values = num_requests * num_columns
        self._state.write_packed(self._plan[:num_values].view(num_requests, num_columns))
        size = PlanSize(num_requests, num_tokens, self._num_axes)
        plan = PrefillPlan.of(self._plan[num_values:], size)
        sampling = all_used(SamplingKind.SAMPLED, self._plan.device)
        return self._iteration.prefill(plan, num_tokens, sampling, self._max_batch_size)

    def _decode_beside(
        self, num_slots: int, kind: SamplingKind, levels: IterationLayouts, num_tokens: int
    ) -> VerifyOutput:
        """As `decode_leading`, with the chunks of prompts in the packed plan."""
        size = PlanSize(PIGGYBACK_LIMITS.max_chunks, num_tokens, self._num_axes)
        plan = PrefillPlan.of(self._plan, size)
        prompts = prefill_input(self._state, plan, num_tokens)
        sampling = all_used(kind, self._state.ids.device)
        return self._iteration.decode(slice(0, num_slots), sampling, levels, prompts)
