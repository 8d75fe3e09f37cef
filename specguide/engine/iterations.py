"""Owns an iteration from its launch to its results: its times, and the records of it for requests
that ask for them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from specguide.batch import Batch, StepOutput
from specguide.engine.executors import Executor, PendingOutput
from specguide.engine.observers import Committed
from specguide.guided.grammar_stream.stream import GrammarStream
from specguide.request import Request
from specguide.request_records import Iteration, IterationTimes


@dataclass(frozen=True, eq=False)
class InFlight:
    """A batch that may still run.

    requests: the requests of the batch, in order
    begin_s, grammar_s, grammar_exposed_s: as in IterationTimes
    """

    batch: Batch
    requests: Sequence[Request]
    pending: PendingOutput
    begin_s: float
    grammar_s: float | None
    grammar_exposed_s: float | None

    def collect(self) -> tuple[StepOutput, IterationTimes]:
        """Wait for its results. Raises torch's error where the device failed."""
        wait_begin_s = time.perf_counter()
        output = self.pending.result()
        end_s = time.perf_counter()
        return output, IterationTimes(
            self.begin_s, end_s - wait_begin_s, end_s, self.grammar_s, self.grammar_exposed_s
        )


def launch(batch: Batch, requests: Sequence[Request], executor: Executor) -> InFlight:
    """Start a batch, and note the time. The time of its callbacks is noted only if a request asks
    for it. On a CPU the batch has run when this returns.
    """
    is_asked = any(request.params.return_drafts for request in requests)
    before = _grammar_times(executor.grammar) if is_asked else None
    begin_s = time.perf_counter()
    pending = executor.execute(batch)
    after = _grammar_times(executor.grammar) if before else None
    if before is None or after is None:
        return InFlight(batch, requests, pending, begin_s, None, None)
    return InFlight(batch, requests, pending, begin_s, after[0] - before[0], after[1] - before[1])


class Iterations:
    """An observer that records iterations for the requests that ask for them."""

    def take(self, committed: Committed) -> None:
        """Take one more iteration. A chunk of a prompt that gives no token does not count as an
        iteration of its request."""
        output = committed.output
        for row, request, advance in committed.rows():
            if request.params.return_drafts and (advance.tokens or advance.is_held):
                drafts = output.drafts[row].tolist()
                drafted = tuple(drafts[: drafts.index(-1)] if -1 in drafts else drafts)
                num_accepted = max(0, int(output.num_tokens[row]) - 1)
                request.iterations.append(
                    Iteration(
                        drafted,
                        num_accepted,
                        advance.tokens,
                        advance.is_first,
                        committed.times,
                    )
                )


def _grammar_times(grammar: GrammarStream) -> tuple[float, float] | None:
    """Seconds in callbacks so far, and the part of them that the forward stream waited for; None
    where that is unknown."""
    exposed_s = grammar.exposed_s
    return None if exposed_s is None else (grammar.counters().callback_ns * 1e-9, exposed_s)
