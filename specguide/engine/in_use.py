"""Owns the check that an engine is in one thread's hands at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from specguide.errors import EngineError

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")


class InUse:
    """Whether somebody is in a method of an object. Never waits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        """Raises EngineError where somebody is, the caller itself included."""
        if not self._lock.acquire(blocking=False):
            raise EngineError(
                "the engine is in use: it takes one call at a time, and none from within a call; "
                "several threads use LLM or AsyncEngine"
            )

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def one_at_a_time(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Decorates a method of an object that has an `in_use`: while it runs, others raise
    EngineError."""

    @wraps(method)
    def guarded(self: Any, *args: P.args, **kwargs: P.kwargs) -> T:
        with self.in_use:
            return method(self, *args, **kwargs)

    return guarded
