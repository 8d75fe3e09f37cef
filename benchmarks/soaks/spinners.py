"""Owns threads that hold the GIL: what callbacks must not wait for, in benchmarks and tests."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Spinners:
    """Context: threads that run Python and nothing else, so that each holds the GIL as long as it
    is let.

    switch_interval_s: after which Python takes the GIL from a thread, meanwhile; None leaves it at
                       its usual 5 ms
    """

    def __init__(self, num_threads: int, switch_interval_s: float | None = None) -> None:
        self._stop, self._go = threading.Event(), threading.Event()
        self._threads = [
            threading.Thread(target=self._spin, name=f"spinner {i}", daemon=True)
            for i in range(num_threads)
        ]
        self._switch_interval_s = switch_interval_s
        self._usual_s = sys.getswitchinterval()

    def __enter__(self) -> Spinners:
        sys.setswitchinterval(self._switch_interval_s or self._usual_s)
        self._go.set()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._go.set()
        sys.setswitchinterval(self._usual_s)
        for thread in self._threads:
            thread.join()

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Meanwhile they wait."""
        self._go.clear()
        yield
        self._go.set()

    def _spin(self) -> None:
        number = 0
        while not self._stop.is_set():
            self._go.wait()
            for _ in range(10_000):
                number = (number * 31 + 7) % 1_000_003
