"""Owns an iteration from its launch to its results: when it ran, and what it gave the requests that
want to know."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from specguide.batch import Batch, StepOutput
from specguide.engine.executors import Executor, PendingOutput
from specguide.guided.stream import GrammarStream
from specguide.request import Iteration, IterationTimes


@dataclass(frozen=True, eq=False)
class InFlight:
    """A batch that may still run. begin_s, grammar_s, grammar_exposed_s: as in IterationTimes"""

    batch: Batch
    pending: PendingOutput
    begin_s: float
    grammar_s: float | None
    grammar_exposed_s: float | None

    def collect(self) -> tuple[StepOutput, IterationTimes]:
        """Waits for its results. Raises torch's error where the device failed."""
        wait_begin_s = time.perf_counter()
        output = self.pending.result()
        end_s = time.perf_counter()
        return output, IterationTimes(
            self.begin_s, end_s - wait_begin_s, end_s, self.grammar_s, self.grammar_exposed_s
        )


def launch(batch: Batch, executor: Executor) -> InFlight:
    """Have the batch executed, and note when; how long its callbacks took only if a request asks.

    On a CPU it has then run.
    """
    is_asked = any(request.params.return_drafts for request in batch.requests)
    before = _grammar_times(executor.guide) if is_asked else None
    begin_s = time.perf_counter()
    pending = executor.execute(batch)
    after = _grammar_times(executor.guide) if before else None
    if before is None or after is None:
        return InFlight(batch, pending, begin_s, None, None)
    return InFlight(batch, pending, begin_s, after[0] - before[0], after[1] - before[1])


def take_iterations(
    batch: Batch, output: StepOutput, times: IterationTimes, lengths: Sequence[int]
) -> None:
    """Tell the requests that ask what the iteration has given them, once the scheduler has taken
    its tokens.

    lengths: of the requests' outputs before that
    """
    for place, (request, length) in enumerate(zip(batch.requests, lengths, strict=True)):
        if not request.params.return_drafts:
            continue
        tokens = tuple(request.output_ids[length:])
        is_void = (
            request.finish_reason is not None
            or request.error is not None
            or request.turn != batch.turns[place]
        )
        is_partial = batch.is_prefill and batch.chunks[place].next_id is not None
        if tokens or not (is_void or is_partial):
            drafts = output.drafts[place].tolist()
            drafted = tuple(drafts[: drafts.index(-1)] if -1 in drafts else drafts)
            num_accepted = max(0, int(output.num_tokens[place]) - 1)
            request.iterations.append(
                Iteration(drafted, num_accepted, tokens, batch.is_prefill, times)
            )


def _grammar_times(guide: GrammarStream) -> tuple[float, float] | None:
    """Seconds in callbacks so far, and those of them that the forward stream waited for; None where
    nobody knows."""
    exposed_s = guide.exposed_s
    return None if exposed_s is None else (guide.counters().callback_ns * 1e-9, exposed_s)
