"""Owns the way from a guide to a compiled grammar: limits, choice of backend, worker threads, time-outs, cache.

A library's compile cannot be interrupted. It releases the GIL, so it runs on a worker thread, and one that takes too
long is abandoned: its caller gets an error at once, another worker takes its place, and only so many of a backend's may
be abandoned at a time; those of other backends go on. (Compiling in a process that can be killed was measured: bringing
a grammar of xgrammar's over costs up to half of what compiling it costs, and a second copy of the tokenizer's tables.)
Workers are daemons: an exit waits for those that are idle, and no more than a moment for one in a library.
"""

from __future__ import annotations

import atexit
import queue
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from specguide.config import GuideConfig
from specguide.errors import EngineError, GuideLimitExceeded, InvalidGuide, SpecguideError, UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.backends import (
    BACKEND_NAMES,
    Backend,
    BackendStatus,
    CompiledGrammar,
    backend_status,
    create_backend,
)
from specguide.guided.grammar_cache import GrammarCache
from specguide.guided.limits import check_limits, check_size
from specguide.guided.select import candidates, rewrites
from specguide.guided.user_grammar import UserGrammar
from specguide.guided.verdict import check_start, why_none
from specguide.tokenizer.vocabulary import Vocabulary

MAX_ABANDONED = 4
_STACK_BYTES = 256 << 20
"""Of a worker: the libraries follow nested schemas and chains of rules on the stack, and its end ends the process."""
_MOST_CLOSING_S = 1.0
_compilers: weakref.WeakSet[GrammarCompiler] = weakref.WeakSet()


def backend_report() -> list[BackendStatus]:
    """Per grammar backend what was found: its version, whether it is native, and why not where it is not."""
    return [backend_status(name) for name in BACKEND_NAMES]


@dataclass(eq=False)
class _Job:
    """One compile. `futures` are its callers'; `deadline` (monotonic, seconds) is set when it starts.

    backend: name of the one that is at it
    """

    key: Hashable
    guide: Guide
    futures: list[Future[CompiledGrammar]] = field(default_factory=list)
    deadline: float | None = None
    backend: str = ""
    abandoned: bool = False


class GrammarCompiler:
    """Compiles guides against one vocabulary, on worker threads. Its methods may be called from any thread."""

    def __init__(self, vocabulary: Vocabulary, config: GuideConfig) -> None:
        self.config = config
        self.cache = GrammarCache(config.cache_bytes)
        self._vocabulary = vocabulary
        self._backends: dict[str, Backend] = {}
        self._backends_lock = threading.Lock()
        self._lock = threading.Condition()
        self._jobs: dict[Hashable, _Job] = {}
        self._running: list[_Job] = []
        self._queue: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._num_workers = 0
        self._num_abandoned: Counter[str] = Counter()  # by backend
        self._watching = self._closed = False
        self._threads: list[threading.Thread] = []
        _compilers.add(self)

    def submit(self, guide: Guide) -> Future[CompiledGrammar]:
        """The guide's compiled grammar, soon. Equal guides share one compile, and what it came to is kept.

        The future's error is InvalidGuide when the guide is malformed, UnsupportedGuide when no backend enforces it,
        GuideLimitExceeded naming the field of GuideConfig when it runs into a limit, EngineError when the compiler is
        closed.
        """
        future: Future[CompiledGrammar] = Future()
        if guide.matcher is not None:
            return _made(guide.matcher)
        try:
            source = check_size(guide, self.config)
        except InvalidGuide as error:
            future.set_exception(error)
            return future
        key = (guide.kind, self._requested(guide), source)
        known = None if self._closed else self.cache.get(key)
        if known is not None:
            _settle([future], known)
            return future
        with self._lock:
            if self._closed:
                future.set_exception(EngineError("the grammar compiler is closed"))
            elif key in self._jobs:
                self._jobs[key].futures.append(future)
            else:
                self._jobs[key] = job = _Job(key, guide, [future])
                self._hire()
                self._queue.put(job)
        return future

    def compile(self, guide: Guide) -> CompiledGrammar:
        """`submit`, and wait for it. Raises what the future's error would be."""
        return self.submit(guide).result()

    def close(self) -> None:
        """Take no more guides and let the workers go; what waits or is being compiled ends with an EngineError.

        Waits for the threads, since one that lives on while the interpreter ends would abort the process, but no
        longer than a moment for one that is at work in a library.
        """
        with self._lock:
            self._closed = True
            jobs = list(self._jobs.values())
            for job in jobs:
                job.abandoned = True
            self._num_abandoned.update(job.backend for job in self._running)
            self._running.clear()
            self._jobs.clear()
            for _ in range(self._num_workers):
                self._queue.put(None)
            self._lock.notify_all()
        for job in jobs:
            _settle(job.futures, EngineError("the grammar compiler was closed"))
        deadline = time.monotonic() + _MOST_CLOSING_S
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))

    def _requested(self, guide: Guide) -> str:
        return guide.backend or self.config.backend

    def _hire(self) -> None:
        """Start threads, with the lock held: a worker for every job in hand, up to the limit, and the watchman."""
        if self._num_workers < min(self.config.num_compile_threads, len(self._jobs)):
            self._num_workers += 1
            self._start(self._work, "grammar compile")
        if not self._watching:
            self._watching = True
            self._start(self._watch, "grammar compile time-outs")

    def _start(self, work: Callable[[], None], name: str) -> None:
        before = threading.stack_size(_STACK_BYTES)
        thread = threading.Thread(target=work, name=name, daemon=True)
        thread.start()
        threading.stack_size(before)
        self._threads = [*(other for other in self._threads if other.is_alive()), thread]

    def _work(self) -> None:
        while self._work_on(self._queue.get()):
            pass

    def _work_on(self, job: _Job | None) -> bool:
        """Compile it; False where the worker is to go."""
        if job is None:
            return False
        with self._lock:
            if job.abandoned:
                return True
            job.deadline = time.monotonic() + self.config.compile_timeout_s
            self._running.append(job)
            self._lock.notify_all()
        outcome = self._outcome(job)
        if not isinstance(outcome, (EngineError, GuideLimitExceeded)):
            self.cache.put(job.key, outcome)
        with self._lock:
            if job not in self._running:  # abandoned, and another worker has taken this one's place
                self._num_abandoned[job.backend] -= 1
                return False
            self._running.remove(job)
            self._jobs.pop(job.key, None)
        _settle(job.futures, outcome)
        return True

    def _watch(self) -> None:
        """Ends jobs whose time is up, until the compiler is closed."""
        while late := self._wait_for_late():
            for job in late:
                _settle(job.futures, self._too_slow())

    def _wait_for_late(self) -> list[_Job]:
        with self._lock:
            while not self._closed:
                now = time.monotonic()
                deadlines = {job: job.deadline for job in self._running if job.deadline is not None}
                late = [job for job, deadline in deadlines.items() if deadline <= now]
                if late:
                    for job in late:
                        self._abandon(job)
                    return late
                self._lock.wait(min(deadlines.values()) - now if deadlines else None)
        return []

    def _abandon(self, job: _Job) -> None:
        job.abandoned = True
        self._running.remove(job)
        self._jobs.pop(job.key, None)
        self._num_abandoned[job.backend] += 1
        self._num_workers -= 1
        self._hire()

    def _too_slow(self) -> GuideLimitExceeded:
        return GuideLimitExceeded(
            f"the grammar took longer to compile than compile_timeout_s ({self.config.compile_timeout_s:g} s); make it "
            "smaller, or raise the limit", limit="compile_timeout_s")

    def _outcome(self, job: _Job) -> CompiledGrammar | InvalidGuide | EngineError:
        """The compiled grammar, or why there is none."""
        try:
            check_limits(job.guide, self.config)
            return self._first_enforcing(job)
        except InvalidGuide as error:
            return error
        except RecursionError:
            return GuideLimitExceeded(f"the {job.guide.kind} is nested too deeply; max_depth is "
                                      f"{self.config.max_depth}", limit="max_depth")
        except Exception as error:  # a library's bug must end this request alone
            return EngineError(f"compiling the {job.guide.kind} failed: {type(error).__name__}: {error}")

    def _first_enforcing(self, job: _Job) -> CompiledGrammar:
        reasons: dict[str, InvalidGuide] = {}
        for name in candidates(job.guide, self._requested(job.guide)):
            if not self._begin(job, name):
                break
            try:
                for rewritten in rewrites(job.guide, name):
                    try:
                        return self._compiled(rewritten, name)
                    except InvalidGuide as error:
                        reasons.setdefault(name, error)
            except UnsupportedGuide as error:
                reasons.setdefault(name, error)
        raise why_none(job.guide, reasons)

    def _begin(self, job: _Job, backend: str) -> bool:
        """Whether somebody waits for it. Raises GuideLimitExceeded where the backend is at too much already."""
        with self._lock:
            if not job.abandoned and self._num_abandoned[backend] >= MAX_ABANDONED:
                raise GuideLimitExceeded(
                    f"{MAX_ABANDONED} grammars for {backend}, which this one needs, took longer than compile_timeout_s "
                    f"({self.config.compile_timeout_s:g} s) and are still being compiled; try again when one has ended",
                    limit="compile_timeout_s")
            if not job.abandoned:
                job.backend = backend
            return not job.abandoned

    def _compiled(self, guide: Guide, backend: str) -> CompiledGrammar:
        grammar = self._backend(backend).compile(guide, self.config)
        check_start(grammar, self._vocabulary)
        return grammar

    def _backend(self, name: str) -> Backend:
        with self._backends_lock:
            if name not in self._backends:
                try:
                    self._backends[name] = create_backend(name, self._vocabulary)
                except EngineError as error:  # the library is not installed
                    raise UnsupportedGuide(str(error)) from None
            return self._backends[name]


def _made(make: Callable[[], Any]) -> Future[CompiledGrammar]:
    future: Future[CompiledGrammar] = Future()
    try:
        future.set_result(UserGrammar(make))
    except InvalidGuide as error:
        future.set_exception(error)
    return future


@atexit.register
def _close_all() -> None:
    for compiler in list(_compilers):
        compiler.close()


def _settle(futures: list[Future[CompiledGrammar]], outcome: CompiledGrammar | SpecguideError) -> None:
    for future in futures:
        if not future.set_running_or_notify_cancel():
            continue
        if isinstance(outcome, SpecguideError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
