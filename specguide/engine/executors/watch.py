"""Owns Watch, which looks after a call of rank 0's that may wait on its device for a rank that is
gone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

_LOOK_S = 0.25
_GRACE_S = 2.0
"""Time for a call to find out by itself."""


class Watched(Protocol):
    """A rank's process."""

    def end_in_words(self) -> str | None:
        """How it has ended; None while it runs."""


class Watch:
    """A thread that ends what waits once a rank's process is gone: the caller itself may be in a
    call of CUDA's that returns no sooner."""

    def __init__(self, ranks: Sequence[Watched], abort: Callable[[], object]) -> None:
        """abort: ends what waits; called once, on the thread"""
        self._ranks, self._abort = ranks, abort
        self._since_s: float | None = None
        self._is_over = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Watch a call."""
        self._since_s = time.perf_counter()
        try:
            yield
        finally:
            self._since_s = None

    def end(self) -> None:
        """Nothing is watched any more."""
        self._is_over.set()

    def _run(self) -> None:
        while not self._is_over.wait(_LOOK_S):
            since_s = self._since_s
            if since_s is None or time.perf_counter() - since_s < _GRACE_S:
                continue
            if any(rank.end_in_words() for rank in self._ranks):
                self._abort()
                return
