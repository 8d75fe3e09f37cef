"""Owns the compiling of an application's own guides, on threads of this process.

A library's compile cannot be interrupted. It releases the GIL, so it runs on a thread. A compile
that takes too long is abandoned: its caller gets an error at once, and another thread takes its
place. The number of a backend's abandoned compiles is limited; compiles of other backends go on.
For guides of strangers see lanes.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from specguide.config import GuideConfig
from specguide.errors import CompilerBusy
from specguide.guided.backends import CompiledGrammar
from specguide.guided.compiling.job import Done, Job
from specguide.guided.compiling.libraries import (
    Libraries,
    Outcome,
    outcome,
    too_slow,
)
from specguide.guided.compiling.workers import join_threads, start_thread

MAX_ABANDONED = 4
_LOAD_S = 60.0
"""Longest time to load a library before its first compile, in seconds."""


@dataclass(eq=False)
class _Run:
    """A job that runs. deadline: monotonic, seconds; backend: name of the backend that compiles
    it"""

    job: Job
    deadline: float
    backend: str = ""


class ThreadRunner:
    """Compile threads, started as jobs come, and a thread that watches their deadlines; see
    job.Runner."""

    def __init__(self, libraries: Libraries, config: GuideConfig, done: Done) -> None:
        self._libraries, self._config, self._done = libraries, config, done
        self._changed = threading.Condition()
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._running: list[_Run] = []
        self._num_waiting = self._num_workers = 0
        self._num_abandoned: Counter[str] = Counter()  # by backend
        self._is_watching = self._is_closed = False
        self._threads: list[threading.Thread] = []

    def put(self, job: Job) -> None:
        with self._changed:
            self._num_waiting += 1
            self._hire()
        self._queue.put(job)

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._num_abandoned.update(run.backend for run in self._running)
            self._running.clear()
            for _ in range(self._num_workers):
                self._queue.put(None)
            self._changed.notify_all()
        join_threads(self._threads)

    def _hire(self) -> None:
        """Start threads: one for each open job, up to the limit, and the watching thread. The
        caller must hold the lock."""
        num_jobs = self._num_waiting + len(self._running)
        if self._num_workers < min(self._config.num_compile_threads, num_jobs):
            self._num_workers += 1
            self._start(self._work, "grammar compile")
        if not self._is_watching:
            self._is_watching = True
            self._start(self._watch, "grammar compile time-outs")

    def _start(self, work: Callable[[], None], name: str) -> None:
        self._threads = [
            *(thread for thread in self._threads if thread.is_alive()),
            start_thread(work, name),
        ]

    def _work(self) -> None:
        while (job := self._queue.get()) is not None and self._work_on(job):
            pass

    def _work_on(self, job: Job) -> bool:
        """Compile a job. Returns False where the worker must end."""
        with self._changed:
            self._num_waiting -= 1
            if self._is_closed:
                return False
            run = _Run(job, time.monotonic() + self._config.compile_timeout_s)
            self._running.append(run)
            self._changed.notify_all()
        result = self._outcome(run)
        with self._changed:
            is_abandoned = run not in self._running
            if is_abandoned:  # another worker has replaced this one
                self._num_abandoned[run.backend] -= 1
            else:
                self._running.remove(run)
        self._done(job, result)
        return not is_abandoned

    def _outcome(self, run: _Run) -> Outcome:
        job, libraries = run.job, self._libraries

        def compiled() -> CompiledGrammar:
            begin = partial(self._begin, run)
            enforced = libraries.first_enforcing(job.guide, job.requested, begin)
            return libraries.served(enforced.grammar, enforced.written, job.guide)

        return outcome(job.guide, self._config, compiled)

    def _begin(self, run: _Run, backend: str) -> None:
        """Load the backend, which does not count in the run's time. Raises CompilerBusy where too
        many of the backend's compiles are abandoned."""
        with self._changed:
            if run not in self._running:  # it was given up
                raise CompilerBusy("it was given up")
            if self._num_abandoned[backend] >= MAX_ABANDONED:
                raise CompilerBusy(
                    f"{MAX_ABANDONED} grammars for {backend}, which this one needs, took longer "
                    f"than compile_timeout_s ({self._config.compile_timeout_s:g} s) and are still "
                    "at it; try again when one has ended"
                )
            run.backend = backend
            run.deadline += _LOAD_S
        began_s = time.monotonic()
        self._libraries.load(backend)
        with self._changed:
            run.deadline += time.monotonic() - began_s - _LOAD_S
            self._changed.notify_all()

    def _watch(self) -> None:
        """Give up jobs whose time is over, until the runner is closed."""
        while late := self._wait_for_late():
            for run in late:
                self._done(run.job, too_slow(self._config))

    def _wait_for_late(self) -> list[_Run]:
        with self._changed:
            while not self._is_closed:
                now = time.monotonic()
                late = [run for run in self._running if run.deadline <= now]
                for run in late:
                    self._running.remove(run)
                    self._num_abandoned[run.backend] += 1
                    self._num_workers -= 1
                if late:
                    self._hire()
                    return late
                deadline = min((run.deadline for run in self._running), default=None)
                self._changed.wait(None if deadline is None else deadline - now)
        return []
