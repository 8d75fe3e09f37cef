"""Owns Job: one compile as its runners see it, with the callers that still wait for it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Protocol

from specguide.errors import SpecguideError
from specguide.guide import Guide
from specguide.guided.backends import CompiledGrammar
from specguide.guided.compiling.libraries import Outcome
from specguide.guided.grammar_future import GrammarFuture


@dataclass(eq=False)
class Job:
    """One compile, for all callers that wait for it. Call its methods with the compiler's lock
    held.

    key:       the guide's key in the cache
    requested: "auto", or the backend that is asked for
    futures:   one for each caller; empty once the job has an outcome
    """

    key: Hashable
    guide: Guide
    requested: str
    futures: list[GrammarFuture] = field(default_factory=list)

    @property
    def is_wanted(self) -> bool:
        """Whether any caller still waits."""
        return not all(future.cancelled() for future in self.futures)

    def take_futures(self) -> list[GrammarFuture]:
        """Take the futures off the job, for the caller to settle."""
        futures, self.futures = self.futures, []
        return futures


Done = Callable[[Job, Outcome], None]
"""A function that takes the outcome of a job. A job that was given up calls it again when it really
ends."""


class Runner(Protocol):
    """Runs jobs in parallel. Its methods may be called from any thread."""

    def put(self, job: Job) -> None:
        """Take a job, and report its outcome later."""
        ...

    def close(self) -> None:
        """Stop all threads. Waits for threads that are between two jobs, and at most a moment for
        the others."""
        ...


def settle(futures: list[GrammarFuture], outcome: CompiledGrammar | SpecguideError) -> None:
    """Give callers the outcome of their job."""
    for future in futures:
        if not future.set_running_or_notify_cancel():
            continue
        if isinstance(outcome, SpecguideError):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
