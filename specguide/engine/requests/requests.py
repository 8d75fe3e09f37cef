"""Owns an engine's requests from the call that adds them until their caller has them back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from specguide.engine.executors import Executor
from specguide.engine.kv_transfer import Transfer
from specguide.engine.requests.admission import Admission, Admitted
from specguide.engine.requests.deadlines import Deadlines
from specguide.engine.requests.failures import timeout
from specguide.engine.requests.faithful import Entry, Faithful
from specguide.engine.requests.walks import Walks
from specguide.errors import EngineError, SpecguideError
from specguide.guided.finite import FiniteGrammar
from specguide.guided.grammar_future import GrammarFuture
from specguide.request import Request
from specguide.sampling import RequestProcessors
from specguide.scheduler import Scheduler

_POLL_S = 0.001


class Requests:
    """Gives requests to the scheduler once they may run, and ends those that end outside of an
    iteration.

    ended:  requests that have ended and were not taken yet
    walks:  the grammars of requests that may run
    on_end: called with each ended request when it is taken
    """

    def __init__(
        self,
        admission: Admission,
        scheduler: Scheduler,
        executor: Executor,
        on_end: Sequence[Callable[[Request], None]],
        max_scoring: int,
        transfer: Transfer,
    ) -> None:
        """max_scoring: see Faithful"""
        self._admission, self._scheduler, self._executor = admission, scheduler, executor
        self._on_end = on_end
        self.walks, self.deadlines = Walks(), Deadlines()
        self.ended: list[Request] = []
        self._faithful = Faithful(self, max_scoring)
        self._transfer = transfer
        self._parked: dict[Request, Admitted] = {}
        """Admitted requests that wait until the pages of their prompts have come."""

    @property
    def num_unfinished(self) -> int:
        """Number of requests that were added and not taken yet, and of those that score for
        them."""
        num_admitted = self._scheduler.num_unfinished + len(self._faithful.samples)
        num_waiting = self._admission.num_compiling + len(self._parked)
        return num_waiting + len(self.ended) + num_admitted

    @property
    def has_none_to_run(self) -> bool:
        """Whether no request can run or be returned: all wait for grammars or pages."""
        return not self.ended and not self._scheduler.num_unfinished

    def idle_s(self) -> float:
        """Seconds until the next work, unless a grammar becomes ready before; 0: now."""
        is_busy = self._scheduler.num_unfinished or self.ended or self._admission.has_compiled
        return 0.0 if is_busy or self._transfer.has_news else self.deadlines.wait_s()

    def add(self, request: Request) -> None:
        """Add a request. If something is wrong with it, it ends with an error."""
        self.deadlines.add(request)
        self._transfer.begin(request)
        if request.params.guide is None:
            self._admit(request)
        else:
            self._admission.compile(request)

    def wait(self) -> None:
        """Wait for a grammar or a deadline; only for a moment where a request waits for pages."""
        if self._parked:
            time.sleep(_POLL_S)
        else:
            self._admission.wait(self.deadlines.wait_s())

    def take_up(self) -> None:
        """Give the requests to the scheduler whose grammars and pages have come, and end those
        whose time is up."""
        for request, compiled in self._admission.take_compiled():
            self._admit(request, compiled)
        for request in self._transfer.take_up():
            if request in self._parked:
                with self._ending(request):
                    self._run(self._parked.pop(request))
        for request in self.deadlines.take_expired():
            self.end(request, timeout(request))

    def end(self, request: Request, error: SpecguideError | None = None) -> None:
        """End a request outside an iteration: with `error`, or as aborted."""
        self._admission.discard(request)
        self._parked.pop(request, None)
        self._faithful.discard(request)
        self.deadlines.discard(request)
        self.release(self._scheduler.cancel(request, error))
        self.ended.append(request)

    def abort(self, error: SpecguideError | None = None) -> None:
        """End all requests that wait for a slot or run: with `error`, or as aborted."""
        _, finished, released = self._scheduler.abort(error)
        self.ended += finished
        self.release(released)

    def close(self) -> None:
        """Abort all requests; they are not handed out."""
        self._transfer.close()
        waiting = (*self._admission.take_all(), *self._parked)
        for request in (*waiting, *self._faithful.samples):
            self.end(request)
        self.abort()
        self.ended.clear()

    def release(self, slots: Sequence[int]) -> None:
        """Stop all work for the requests that have left these slots."""
        for slot in slots:
            self._executor.grammar.detach(slot)
        self._executor.release(slots)

    def take_ended(self) -> list[Request]:
        """Hand out the requests that have ended; nothing more is kept of them."""
        taken: list[Request] = []
        while self.ended:  # the last request that scores for samples ends these samples
            ended, self.ended = self.ended, []
            for request in ended:
                self.walks.discard(request)
            taken += [request for request in ended if not self._faithful.take(request)]
        for request in taken:
            self.deadlines.discard(request)
            self._transfer.end(request)
            self._executor.processors.pop(request.request_id, None)
            for call in self._on_end:
                call(request)
        return taken

    def next_id(self) -> int:
        """See faithful.Caller."""
        return self._admission.next_id()

    def start(self, request: Request) -> None:
        """Start a request that scores for a faithful one."""
        self._scheduler.add(request)
        self.walks.add(request, None, None)

    def stop(self, request: Request) -> None:
        """Stop a request whose scores nobody needs any more."""
        self.walks.discard(request)
        self.release(self._scheduler.cancel(request))

    def answer(self, sample: Request, token_ids: Sequence[int], entries: list[Entry]) -> None:
        """End a faithful sample with the tokens that were drawn for it."""
        sample.logprobs += map(dict, entries)
        self._scheduler.answer(sample, token_ids)
        self.ended.append(sample)

    def _admit(self, request: Request, compiled: GrammarFuture | None = None) -> None:
        with self._ending(request):
            self._enter(self._admission.admit(request, compiled))

    @contextmanager
    def _ending(self, request: Request) -> Iterator[None]:
        """A context in which an error ends only this request."""
        try:
            yield
        except SpecguideError as error:
            # The traceback refers to the engine, and the grammar cache may keep the error.
            self.end(request, error.with_traceback(None))
        except Exception as cause:  # of a library, such as the tokenizer's
            words = f"the request could not be started: {type(cause).__name__}: {cause}"
            self.end(request, EngineError(words))

    def _enter(self, admitted: Admitted) -> None:
        if self._transfer.holds(admitted.request):
            self._parked[admitted.request] = admitted
        else:
            self._run(admitted)

    def _run(self, admitted: Admitted) -> None:
        request = admitted.request
        if isinstance(admitted.grammar, FiniteGrammar):
            self._faithful.add(request, admitted.grammar)
            return
        self._scheduler.add(request, admitted.adjustment, admitted.layout)
        self.walks.add(request, admitted.grammar, admitted.layout)
        if admitted.processors:
            processors = RequestProcessors(admitted.processors, request.output_ids)
            self._executor.processors[request.request_id] = processors
