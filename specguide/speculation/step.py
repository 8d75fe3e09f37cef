"""Owns the one-model step: it runs one iteration for a batch, with exact sizes or padded to the
size of a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from specguide.batch import Batch
from specguide.guided.grammar_stream.stream import GrammarStream
from specguide.piggyback import PiggybackLimits
from specguide.sampling import RequestProcessors
from specguide.slots import SlotTable
from specguide.speculation.batch_sampling import BatchSampling, Sampling
from specguide.speculation.iteration import Iteration
from specguide.speculation.passes import ForwardPasses
from specguide.speculation.protocol import StepOptions
from specguide.speculation.results import PendingOutput, ResultRing, VerifyOutput
from specguide.speculation.sampler import Sampler
from specguide.speculation.sized_iterations import SizedIterations
from specguide.speculation.warm_up import WarmUps, prefills_without_requests


class OneModelStep:
    """Runs target, drafter, grammar and sampling as one iteration. Without a drafter and proposals
    it decodes plainly.

    On a GPU, a decode iteration is one CUDA graph; there are a few graphs, for batches of different
    sizes. A prefill of few tokens is a graph too, padded to the next size.

    A decode iteration may compute chunks of other requests' prompts in the same pass of the target.
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
        self._recorder = grammar.recorder
        self._iteration = Iteration(passes, sampler, state, grammar, options)
        self._sized = SizedIterations(self._iteration, state, grammar, options)
        self._max_batch_size = len(state.ids) - 1
        self._results = ResultRing(
            options.lag + 1,
            self._max_batch_size,
            grammar.layout.num_drafts + 1,
            grammar.forward.torch,
        )
        self._batch_sampling = BatchSampling(state.lengths.device)

    @property
    def piggyback_limits(self) -> PiggybackLimits:
        """See Step."""
        return self._sized.piggyback_limits

    @torch.inference_mode()
    def launch(self, batch: Batch, processed: Mapping[int, RequestProcessors]) -> PendingOutput:
        """See Step. On a GPU it returns at once."""
        with self._grammar.forward.current(), self._recorder.host("launch"):
            self._passes.encode(batch.images)
            self._passes.copy_states(batch.restored)
            output = self._launch(batch, processed)
            self._passes.copy_states(batch.saved)
            return output

    def _launch(self, batch: Batch, processed: Mapping[int, RequestProcessors]) -> PendingOutput:
        self._recorder.begin_iteration("prefill" if batch.is_prefill else "decode")
        sampling = self._batch_sampling.of(batch, processed)
        if batch.is_prefill:
            return self._results.put(self._prefill(batch, sampling), range(len(batch.slots)))
        self._change(batch)
        levels = batch.levels or self._sized.all_levels
        if self._sized.runner is None or sampling.processed:
            prompts = self._iteration.prompts_exactly(batch.piggyback)
            slots = self._batch_sampling.slots
            return self._results.put(
                self._iteration.decode(slots, sampling, levels, prompts), range(len(batch.slots))
            )
        return self._results.put(self._sized.decode(batch, sampling, levels), batch.slots)

    def leave(self, slots: Sequence[int]) -> None:
        """See Step."""
        with self._grammar.forward.current():
            self._state.leave(slots)

    def forget_graphs(self) -> None:
        """See Step."""
        if self._sized.runner is not None:
            self._sized.runner.forget()

    def warm_ups(self, max_prefill_tokens: int, max_model_len: int) -> WarmUps:
        """See Step."""
        if self._sized.runner is None:
            return WarmUps()
        prefills = prefills_without_requests(
            self._grammar,
            self._iteration.prefill_exactly,
            self._state.ids.device,
            self._max_batch_size,
            max_prefill_tokens,
            max_model_len,
        )
        captures = self._sized.captures(max_prefill_tokens)
        rehearsals = (*prefills, *captures, self._rehearse_writes, self._forget_rehearsals)
        return WarmUps(rehearsals, captures)  # the first run of a kind is not captured

    def _prefill(self, batch: Batch, sampling: Sampling) -> VerifyOutput:
        self._iteration.clear(batch.slots)
        size = self._sized.prefill_size(batch, sampling)
        if size is None:
            self._state.enter(batch)
            return self._iteration.prefill_exactly(batch.chunks, batch.slots, sampling)
        entering = self._state.entering(batch)
        return self._sized.prefill(batch.chunks, batch.slots, entering, size)

    def _change(self, batch: Batch) -> None:
        """Update the slots before a decode iteration runs."""
        self._state.change(batch)
        if batch.starts:
            self._iteration.clear([batch.slots[start.row] for start in batch.starts])

    def _rehearse_writes(self) -> None:
        """Launch the kernel that writes slots, for the slot that never has a request."""
        self.leave([self._max_batch_size])

    @torch.inference_mode()
    def _forget_rehearsals(self) -> None:
        """Clean up after rehearsals, in which kernels may have been compiled but not run: drop the
        grammar calls that may not have been made, and the output counts of slots without
        requests."""
        self._grammar.abandon()
        with self._grammar.forward.current():
            self._state.adjustments.clear(slice(None))
