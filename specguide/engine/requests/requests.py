"""Owns the requests of an engine from the call that adds them until their caller has them back."""

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
    """Takes requests to the scheduler once they may run, and ends them where no iteration does.

    ended:  those that have ended, and that nobody has taken yet
    walks:  the grammars of those that may run
    on_end: called with each that has ended when it is taken
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
        """Requests that may run once the pages of their prompts have come."""

    @property
    def num_unfinished(self) -> int:
        """Requests that have been added and not taken, and those that score for them."""
        num_admitted = self._scheduler.num_unfinished + len(self._faithful.samples)
        num_waiting = self._admission.num_compiling + len(self._parked)
        return num_waiting + len(self.ended) + num_admitted

    @property
    def has_none_to_run(self) -> bool:
        """Whether all requests wait for their grammar."""
        return not self.ended and not self._scheduler.num_unfinished

    def idle_s(self) -> float:
        """Seconds until a request must be looked at, unless a grammar is compiled; 0: now."""
        is_busy = self._scheduler.num_unfinished or self.ended or self._admission.has_compiled
        return 0.0 if is_busy or self._transfer.has_news else self.deadlines.wait_s()

    def add(self, request: Request) -> None:
        """Take one more request. What is wrong with it ends it."""
        self.deadlines.add(request)
        self._transfer.begin(request)
        if request.params.guide is None:
            self._admit(request)
        else:
            self._admission.compile(request)

    def wait(self) -> None:
        """Wait for a grammar or a deadline; for a moment where a request waits for pages."""
        if self._parked:
            time.sleep(_POLL_S)
        else:
            self._admission.wait(self.deadlines.wait_s())

    def take_up(self) -> None:
        """Send requests whose grammar and pages are there to the scheduler; end those whose time is
        up."""
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
        """End all that wait for a slot or run: with `error`, or as aborted."""
        _, finished, released = self._scheduler.abort(error)
        self.ended += finished
        self.release(released)

    def close(self) -> None:
        """Abort all requests; nobody will take them."""
        self._transfer.close()
        waiting = (*self._admission.take_all(), *self._parked)
        for request in (*waiting, *self._faithful.samples):
            self.end(request)
        self.abort()
        self.ended.clear()

    def release(self, slots: Sequence[int]) -> None:
        """Requests have left these slots: nothing more is done for them there."""
        for slot in slots:
            self._executor.grammar.detach(slot)
        self._executor.release(slots)

    def take_ended(self) -> list[Request]:
        """The requests that have ended; nothing is kept of them."""
        taken: list[Request] = []
        while self.ended:  # the last one that scores for others ends these
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
        """The id of a new request, as Faithful asks for it."""
        return self._admission.next_id()

    def start(self, request: Request) -> None:
        """Start a request that scores for a faithful one."""
        self._scheduler.add(request)
        self.walks.add(request, None, None)

    def stop(self, request: Request) -> None:
        """Stop a request that scores for nobody any more."""
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
        """What goes wrong with a request ends it alone."""
        try:
            yield
        except SpecguideError as error:
            # Its frames hold the engine, and the grammar cache keeps it.
            self.end(request, error.with_traceback(None))
        except Exception as cause:  # of a library, say a tokenizer's: it is this request's alone
            told = f"the request could not be taken up: {type(cause).__name__}: {cause}"
            self.end(request, EngineError(told))

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
