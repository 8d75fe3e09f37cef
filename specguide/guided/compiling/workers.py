"""Owns the threads that work through a queue: daemons with a large stack for the libraries, started
as the queue grows."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from specguide.guided.compiling.fork_server import STACK_BYTES

_log = logging.getLogger(__name__)

T = TypeVar("T")
_MOST_CLOSING_S = 1.0


def start_thread(work: Callable[[], None], name: str) -> threading.Thread:
    """Start a daemon thread with a large stack: the libraries recurse into nested schemas, and a
    stack overflow would kill the process."""
    before = threading.stack_size(STACK_BYTES)
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    threading.stack_size(before)
    return thread


def join_threads(threads: list[threading.Thread]) -> None:
    """Wait for threads to end, but at most a moment, since one may be inside a library. Without the
    wait, Python would stop the threads at any point when the interpreter ends."""
    deadline = time.monotonic() + _MOST_CLOSING_S
    for thread in threads:
        if thread is not threading.current_thread():
            thread.join(max(0.0, deadline - time.monotonic()))


class Lane(Generic[T]):
    """A queue and its worker threads. Its methods may be called from any thread.

    failed:       called with an item whose work raised an error, and that error; the thread goes on
    most_threads: most threads that work at the same time
    most_waiting: most items that wait for a thread
    """

    def __init__(
        self,
        name: str,
        work: Callable[[T], None],
        failed: Callable[[T, BaseException], None],
        *,
        most_threads: int,
        most_waiting: int,
    ) -> None:
        self._name = name
        self._work = work
        self._failed = failed
        self._most_threads, self._most_waiting = most_threads, most_waiting
        self._items: deque[T] = deque()
        self._changed = threading.Condition()
        self._threads: list[threading.Thread] = []
        self._num_busy = 0
        self._is_closed = False

    def offer(self, item: T, *, at_once: bool = False) -> bool:
        """Queue an item. Returns False where too many wait. at_once: queue it only where a thread
        is free for it now"""
        with self._changed:
            has_time = self._num_busy + len(self._items) < self._most_threads
            if self._is_closed or (
                not has_time and (at_once or len(self._items) >= self._most_waiting)
            ):
                return False
            self._items.append(item)
            if self._num_busy + len(self._items) > len(self._threads) < self._most_threads:
                self._threads.append(start_thread(self._run, self._name))
            self._changed.notify()
        return True

    def close(self) -> list[threading.Thread]:
        """Let the threads end after their current items, and drop the items that wait. Returns the
        threads."""
        with self._changed:
            self._is_closed = True
            self._items.clear()
            self._changed.notify_all()
        return self._threads

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._items:
                    if self._is_closed:
                        return
                    self._changed.wait()
                item = self._items.popleft()
                self._num_busy += 1
            self._work_on(item)
            with self._changed:
                self._num_busy -= 1

    def _work_on(self, item: T) -> None:
        try:
            self._work(item)
        except BaseException as error:
            try:
                self._failed(item, error)
            except Exception:
                _log.exception("the thread %r could not tell of a failure", self._name)
