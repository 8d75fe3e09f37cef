"""Owns the way from a guide to a compiled grammar: checks of size, the cache, and one compile for
equal guides that are asked for at the same time.

The runner decides where a compile runs: on a thread, or first in a process that can be killed, as
GuideConfig.isolate_compiles says.
"""

from __future__ import annotations

import atexit
import logging
import threading
import weakref
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

from specguide.config import GuideConfig
from specguide.errors import CompilerBusy, EngineError, GuideLimitExceeded, InvalidGuide
from specguide.guide import Guide
from specguide.guided.backends import (
    BackendStatus,
    CompiledGrammar,
    backend_names,
    backend_status,
    check_backend,
    requested_backend,
)
from specguide.guided.compiling.grammar_cache import GrammarCache
from specguide.guided.compiling.job import Job, Runner, settle
from specguide.guided.compiling.lanes import IsolatedRunner
from specguide.guided.compiling.libraries import (
    Libraries,
    Outcome,
    finish,
    internal_error,
    is_told,
)
from specguide.guided.compiling.threads import ThreadRunner
from specguide.guided.compiling.workers import Lane, join_threads
from specguide.guided.grammar_future import GrammarFuture
from specguide.guided.limits import check_size
from specguide.guided.user_grammar import UserGrammar
from specguide.tokenizer.vocabulary import Vocabulary

_log = logging.getLogger(__name__)
_MOST_FINISHING = 2
_MOST_UNFINISHED = 64

_compilers: weakref.WeakSet[GrammarCompiler] = weakref.WeakSet()


def backend_report() -> list[BackendStatus]:
    """For each grammar backend: its version, whether it is native, and if not, why."""
    return [backend_status(name) for name in backend_names()]


class GrammarCompiler:
    """Compiles guides against one vocabulary, in the background. Its methods may be called from any
    thread.

    Raises InvalidParams where the configuration asks for a backend that does not exist.
    """

    def __init__(self, vocabulary: Vocabulary, config: GuideConfig) -> None:
        check_backend(config)
        self.config = config
        self.cache = GrammarCache(config.cache_bytes)
        self._lock = threading.Lock()
        self._jobs: dict[Hashable, Job] = {}
        self._is_closed = False
        self._eos_token_ids = vocabulary.eos_token_ids
        libraries = Libraries(vocabulary, config, self._submitter())
        self._runner: Runner = (
            IsolatedRunner(libraries, config, self._done, self._is_wanted)
            if config.isolate_compiles
            else ThreadRunner(libraries, config, self._done)
        )
        # Finds ends that no caller waits for. Where it is full, they are found when somebody needs
        # them.
        self._ends: Lane[Callable[[], None]] = Lane(
            "ends of grammars",
            lambda work: work(),
            _failed,
            most_threads=_MOST_FINISHING,
            most_waiting=_MOST_UNFINISHED,
        )
        _compilers.add(self)

    def submit(self, guide: Guide, room: int | None = None) -> GrammarFuture:
        """Start to compile a guide. Equal guides share one compile, and its outcome is cached.

        room: see GrammarFuture
        The future's error is InvalidGuide when the guide is malformed or asks for a backend that
        does not exist, UnsupportedGuide when no backend enforces it, GuideLimitExceeded with the
        field of GuideConfig when it runs into a limit, CompilerBusy when too many others wait or
        take long, EngineError when the compiler is closed.
        """
        future = GrammarFuture(room)
        try:
            requested = requested_backend(guide, self.config)
            if guide.matcher is not None:
                return _made(guide.matcher, self._eos_token_ids)
            source = check_size(guide, self.config)
        except InvalidGuide as error:
            future.set_exception(error)
            return future
        order = guide.key_order or self.config.key_order
        ways = guide.calls is not None, guide.as_tag is not None
        key = (guide.kind, requested, order, ways, source)
        known = None if self._is_closed else self.cache.get(key)
        if known is not None and is_told(known, [future]):
            settle([future], known)
        elif known is not None:
            tell = partial(self._tell, [future], known)
            if not self._ends.offer(tell):
                tell()
        else:
            self._put(Job(key, guide, requested, [future]))
        return future

    def _submitter(self) -> Callable[[Guide], GrammarFuture]:
        """`submit` as a function for grammars. It holds only a weak reference to the compiler."""
        submit = weakref.WeakMethod(self.submit)

        def submit_if_alive(guide: Guide) -> GrammarFuture:
            bound = submit()
            if bound is None:
                raise EngineError("the grammar compiler is gone")
            return bound(guide)

        return submit_if_alive

    def _tell(self, futures: list[GrammarFuture], known: Outcome) -> None:
        """Settle futures. Where one needs to know how the grammar's texts end, find that first."""
        try:
            if not is_told(known, futures):
                finish(known)
        finally:
            settle(futures, known)

    def _put(self, job: Job) -> None:
        """Start a job, or add its futures to an equal job that is under way."""
        with self._lock:
            if self._is_closed:
                for future in job.futures:
                    future.set_exception(EngineError("the grammar compiler is closed"))
                return
            if job.key in self._jobs:
                self._jobs[job.key].futures += job.futures
                return
            self._jobs[job.key] = job
        self._runner.put(job)

    def compile(self, guide: Guide) -> CompiledGrammar:
        """The guide's compiled grammar: `submit`, and wait for it. Raises the future's error."""
        return self.submit(guide).result()

    def warm_up(self) -> None:
        """Start the compile process, without waiting for it, so that the first compile need not
        wait."""
        if self.config.isolate_compiles:
            self.submit(Guide(json_object=True))

    def close(self) -> None:
        """Take no more guides, and stop the threads and processes. Compiles that are not done end
        with an EngineError."""
        with self._lock:
            self._is_closed = True
            jobs = list(self._jobs.values())
            self._jobs.clear()
            futures = [future for job in jobs for future in job.take_futures()]
        settle(futures, EngineError("the grammar compiler was closed"))
        self._runner.close()
        join_threads(self._ends.close())

    def _is_wanted(self, job: Job) -> bool:
        """Whether a caller still waits for a job. A job that nobody waits for is forgotten."""
        with self._lock:
            if not job.is_wanted and self._jobs.get(job.key) is job:
                del self._jobs[job.key]
            return job.is_wanted

    def _done(self, job: Job, outcome: Outcome) -> None:
        """Give the outcome to the callers. A fact about the guide is cached, even when it comes too
        late for them."""
        if not isinstance(outcome, (EngineError, GuideLimitExceeded, CompilerBusy)):
            try:
                self.cache.put(job.key, outcome)
            except Exception as error:  # otherwise callers would wait forever
                outcome = internal_error(job.guide, error)
        with self._lock:
            if self._jobs.get(job.key) is job:
                del self._jobs[job.key]
            futures = job.take_futures()
        self._tell(futures, outcome)
        self._ends.offer(partial(finish, outcome))


def _failed(work: Callable[[], None], error: BaseException) -> None:
    _log.error("what was left of a compile failed: %s", work, exc_info=error)


def _made(make: Callable[[], Any], eos_token_ids: Sequence[int]) -> GrammarFuture:
    future = GrammarFuture()
    try:
        future.set_result(UserGrammar(make, eos_token_ids))
    except InvalidGuide as error:
        future.set_exception(error)
    return future


@atexit.register
def _close_all() -> None:
    for compiler in list(_compilers):
        compiler.close()
