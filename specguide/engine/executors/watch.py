"""Owns Watch: it ends calls of rank 0 that wait on its device for a rank that is gone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

_LOOK_S = 0.25
_GRACE_S = 2.0
"""Seconds in which a call may still find out by itself that a rank is gone."""


class Watched(Protocol):
    """A rank's process."""

    def end_in_words(self) -> str | None:
        """How it has ended, in words; None while it runs."""


class Watch:
    """A thread that ends the kernels that wait once a rank's process is gone. The caller cannot do
    it: it may be inside a CUDA call that does not return before."""

    def __init__(self, ranks: Sequence[Watched], abort: Callable[[], object]) -> None:
        """abort: ends all kernels that wait; called once, on the watching thread"""
        self._ranks, self._abort = ranks, abort
        self._since_s: float | None = None
        self._is_over = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """A context; watches the call inside."""
        self._since_s = time.perf_counter()
        try:
            yield
        finally:
            self._since_s = None

    def end(self) -> None:
        """Stop watching."""
        self._is_over.set()

    def _run(self) -> None:
        while not self._is_over.wait(_LOOK_S):
            since_s = self._since_s
            if since_s is None or time.perf_counter() - since_s < _GRACE_S:
                continue
            if any(rank.end_in_words() for rank in self._ranks):
                self._abort()
                return
