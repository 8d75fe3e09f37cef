"""Owns the check that only one call at a time uses an engine."""

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
    """A lock that is held while a method of an object runs. It raises an error instead of
    waiting."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        """Raises EngineError where it is held already, also by the same thread."""
        if not self._lock.acquire(blocking=False):
            raise EngineError(
                "the engine is in use: it runs one call at a time, and no call within another; to "
                "call it from several threads, use LLM or AsyncEngine"
            )

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def one_at_a_time(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Decorates methods of an object that has an `in_use`: while one of them runs, a call of
    another raises EngineError."""

    @wraps(method)
    def guarded(self: Any, *args: P.args, **kwargs: P.kwargs) -> T:
        with self.in_use:
            return method(self, *args, **kwargs)

    return guarded
