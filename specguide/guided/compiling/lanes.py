"""Owns the compiling of guides from strangers: each is first tried in a process that can be killed,
slow ones in a lane of their own.

Every guide begins in the quick lane and has QUICK_S there. If it takes longer, it continues in the
slow lane when that has a free thread; else it is killed, waits there for its turn, and starts anew.
So quick guides, which are nearly all, never wait for slow ones, however many of these somebody
sends. A guide whose trial succeeds is compiled again in this process, where it is then known to
need no more time and memory.

The second compile is the cheaper part: the schema is rewritten only in the worker, so not under
this process's GIL. The result cannot be transferred from llguidance at all, and from xgrammar the
transfer takes up to half the time of a compile. Trying only guides that look dangerous would not
work, since dangerous schemas look like all others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from specguide.config import GuideConfig
from specguide.errors import CompilerBusy
from specguide.guided.compiling.fork_server import QUICK_S
from specguide.guided.compiling.job import Done, Job
from specguide.guided.compiling.libraries import (
    Failure,
    Libraries,
    Outcome,
    internal_error,
    outcome,
)
from specguide.guided.compiling.sandbox import Passed, Sandbox, Trial
from specguide.guided.compiling.workers import Lane, join_threads

MOST_QUICK_WAITING = 256
MOST_SLOW_WAITING = 16
_LOOK_S = 0.5  # seconds between checks that a caller still waits


class IsolatedRunner:
    """A quick and a slow lane of trials; see job.Runner. is_wanted: whether a caller waits for a
    job"""

    def __init__(
        self,
        libraries: Libraries,
        config: GuideConfig,
        done: Done,
        is_wanted: Callable[[Job], bool],
    ) -> None:
        self._libraries, self._config = libraries, config
        self._done, self._is_wanted = done, is_wanted
        self._sandbox = Sandbox(libraries.vocabulary, config)
        self._quick: Lane[Job] = Lane(
            "grammar compile",
            self._try_quickly,
            self._fail,
            most_waiting=MOST_QUICK_WAITING,
            most_threads=config.num_compile_threads,
        )
        self._slow: Lane[tuple[Job, Trial | None]] = Lane(
            "slow grammar compile",
            self._try_slowly,
            lambda item, error: self._fail(item[0], error),
            most_waiting=MOST_SLOW_WAITING,
            most_threads=config.num_compile_threads,
        )

    def put(self, job: Job) -> None:
        if not self._quick.offer(job):
            self._done(job, _busy(f"{MOST_QUICK_WAITING} grammars wait to be compiled"))

    def close(self) -> None:
        threads = self._quick.close() + self._slow.close()
        self._sandbox.close()  # so that no thread waits for a trial any more
        join_threads(threads)

    def _try_quickly(self, job: Job) -> None:
        if not self._is_wanted(job):
            return
        trial = self._begin(job)
        result = trial.wait(QUICK_S) if isinstance(trial, Trial) else trial
        if result is not None:
            self._finish(job, result)
        elif not self._slow.offer((job, trial), at_once=True):
            trial.kill()
            if not self._slow.offer((job, None)):
                self._done(
                    job,
                    _busy(
                        f"{MOST_SLOW_WAITING} grammars that take long to compile wait for their "
                        "turn, and this is another"
                    ),
                )

    def _try_slowly(self, item: tuple[Job, Trial | None]) -> None:
        job, begun = item
        trial: Trial | Failure | None = begun
        while self._is_wanted(job):
            trial = trial or self._begin(job)
            result = trial.wait(_LOOK_S) if isinstance(trial, Trial) else trial
            if result is not None:
                self._finish(job, result)
                return
        if isinstance(trial, Trial):
            trial.kill()

    def _begin(self, job: Job) -> Any:
        return outcome(
            job.guide, self._config, lambda: self._sandbox.start(job.guide, job.requested)
        )

    def _finish(self, job: Job, result: Passed | Failure) -> None:
        self._done(job, self._compiled(job, result) if isinstance(result, Passed) else result)

    def _fail(self, job: Job, cause: BaseException) -> None:
        self._done(job, internal_error(job.guide, cause))

    def _compiled(self, job: Job, passed: Passed) -> Outcome:
        """The grammar, with the memory that its trial took where that is more than the library's
        own estimate, which may cover only a part."""
        grammar = outcome(
            job.guide,
            self._config,
            lambda: self._libraries.served(
                self._libraries.compile(passed.written, passed.backend), passed.written, job.guide
            ),
        )
        if dataclasses.is_dataclass(grammar) and passed.num_bytes > grammar.num_bytes:
            return dataclasses.replace(grammar, num_bytes=passed.num_bytes)
        return grammar


def _busy(why: str) -> CompilerBusy:
    return CompilerBusy(f"{why}; try again in some seconds")
