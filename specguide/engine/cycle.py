"""Owns the iterations under way, and the steps that the loop takes each through, from its plan to
its commit."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from specguide.batch import Batch, StepOutput
from specguide.engine.executors import Executor
from specguide.engine.iterations import InFlight, launch
from specguide.engine.levels.choice import AllDrafts, LevelChoice
from specguide.engine.observers import Committed, Observer
from specguide.engine.requests.failures import iteration_errors
from specguide.engine.requests.requests import Requests
from specguide.request import Request
from specguide.request_records import IterationTimes
from specguide.scheduler import Schedule, Scheduler

_POLL_S = 0.001  # pause before the loop looks again, while a grammar worker still uses a slot


class Cycle:
    """The verbs of the loop in `Engine.step`, in their order.

    in_flight: iterations that are launched and not collected yet, the oldest first
    observers: get each iteration that is committed
    """

    def __init__(
        self,
        scheduler: Scheduler,
        requests: Requests,
        executor: Executor,
        levels: AllDrafts | LevelChoice,
        observers: Iterable[Observer],
    ) -> None:
        """levels: chooses how much each batch drafts"""
        self._scheduler, self._requests, self._executor = scheduler, requests, executor
        self._grammar, self._recorder = executor.grammar, executor.grammar.recorder
        self._levels = levels
        self.observers = list(observers)
        self._lag = executor.capabilities.lag
        self.in_flight: deque[InFlight] = deque()

    def schedule(self) -> Schedule:
        """Plan the next batch, and take its pages and slots; the batch is None where no request can
        run."""
        with self._recorder.host("schedule"):
            schedule = self._scheduler.schedule(mixes=self._levels.mixes)
            self._requests.release(schedule.released)
        if schedule.batch is not None:
            return schedule._replace(batch=self._levels.choose(schedule.batch))
        if not self.in_flight and self._scheduler.num_unfinished:
            time.sleep(_POLL_S)
        return schedule

    def submit(self, batch: Batch, requests: Sequence[Request]) -> None:
        """Submit a batch's snapshot to the grammar stream. requests: those of the batch, in
        order"""
        with self._recorder.host("submit"):
            self._grammar.submit(self._requests.walks.snapshot(batch, requests))

    def launch(self, batch: Batch, requests: Sequence[Request]) -> None:
        """Start a batch on the executor."""
        self.in_flight.append(launch(batch, requests, self._executor))

    def due(self, batch: Batch | None) -> Iterator[InFlight]:
        """The iterations to collect before the next batch is planned. `batch` was launched last; if
        it calls logits processors, all are due, since the next call needs the whole output."""
        lag = 0 if batch is None or batch.processed else self._lag
        while len(self.in_flight) > lag:
            yield self.in_flight.popleft()

    def collect(self, launched: InFlight) -> tuple[StepOutput, IterationTimes]:
        """Wait for the results of an iteration."""
        with self._recorder.host("wait"):
            return launched.collect()

    def commit(self, launched: InFlight, output: StepOutput, times: IterationTimes) -> None:
        """Commit an iteration's tokens to its requests, and give the iteration to the observers.
        Some requests end."""
        batch, requests = launched.batch, launched.requests
        with self._recorder.host("commit"):
            rows = zip(output.tokens.tolist(), output.num_tokens.tolist(), strict=True)
            tokens = [row[:num_tokens] for row, num_tokens in rows]
            latched = self._grammar.errors(batch.slots)
            errors = iteration_errors(batch, requests, tokens, output.failures, latched)
            advances, finished, released = self._scheduler.commit(batch, tokens, errors)
            self._requests.ended += finished
            self._requests.release(released)
            committed = Committed(batch, requests, output, times, advances)
            for observer in self.observers:
                observer.take(committed)

    def publish(self) -> list[Request]:
        """Hand out the requests that have ended; nothing more is kept of them."""
        return self._requests.take_ended()
