"""Owns an engine that several threads share, and what Ctrl-C does to the requests of the waiting
thread."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from specguide.engine.engine import Engine
from specguide.errors import EngineClosed, EngineError
from specguide.params import SamplingParams
from specguide.request import Request

_LOOK_S = 0.05
"""Longest time until a thread checks again whether another thread has finished its requests."""


class SharedEngine:
    """Runs the requests of several threads on one engine. The threads take turns to step it, and
    their requests run together."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._process_id = os.getpid()
        self._is_closed = False
        self._lock, self._entrance = threading.RLock(), threading.Lock()
        self._running: set[Request] = set()  # changed only under the lock
        self._news = threading.Event()
        engine.on_ready = self._news.set

    def __enter__(self) -> Engine:
        """Wait for the lock; the caller has the engine until it exits. Raises EngineError in a
        forked process, which does not have the engine's threads."""
        if os.getpid() != self._process_id:
            raise EngineError(
                "this LLM was built before the process forked, and does not work in the new "
                "process: build the LLM there, or start processes with multiprocessing's 'spawn'"
            )
        with self._entrance:  # a thread that has just had the lock waits behind the others
            self._lock.acquire()
        return self._engine

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def run(self, prompts: Sequence[tuple[Sequence[int], SamplingParams]]) -> list[list[Request]]:
        """Run prompts to their end. Returns the samples of each prompt.

        An exception in between, such as Ctrl-C, is raised between two iterations, and the requests
        are cancelled. Raises EngineClosed after `close`.
        """
        with _Interrupts() as interrupts:
            own: list[Request] = []
            try:
                samples = self._add(prompts, own, interrupts)
                while not self._running.isdisjoint(own):
                    self._advance(interrupts)
            finally:
                if not self._running.isdisjoint(own):
                    self._cancel(own, interrupts)
        return samples

    def close(self) -> None:
        """Close the engine; requests of other threads end as aborted. Does nothing in a forked
        process, or where it is closed already."""
        if os.getpid() != self._process_id:
            return
        with self as engine:
            if not self._is_closed:
                self._is_closed = True
                engine.close()
                self._running.clear()

    def _add(
        self,
        prompts: Sequence[tuple[Sequence[int], SamplingParams]],
        own: list[Request],
        interrupts: _Interrupts,
    ) -> list[list[Request]]:
        samples: list[list[Request]] = [[] for _ in prompts]
        with interrupts.held(), self as engine:
            if self._is_closed:
                raise EngineClosed("this LLM is closed: build another one")
            for of_prompt, (prompt_ids, params) in zip(samples, prompts, strict=True):
                for sample in range(params.n):
                    request = engine.add(prompt_ids, params, sample=sample)
                    self._running.add(request)
                    of_prompt.append(request)
                    own.append(request)
        return samples

    def _advance(self, interrupts: _Interrupts) -> None:
        """Run one iteration; or wait, where nothing can run until a grammar is compiled or another
        thread is done."""
        with interrupts.held(), self as engine:
            self._news.clear()
            idle_s = engine.idle_s()
            if idle_s == 0:
                self._running.difference_update(engine.step())
        if idle_s > 0:
            self._news.wait(min(idle_s, _LOOK_S))

    def _cancel(self, requests: Sequence[Request], interrupts: _Interrupts) -> None:
        with interrupts.held(), self as engine:
            for request in requests:
                engine.cancel(request)
            self._running.difference_update(requests, engine.step())


class _Interrupts:
    """A context in which Ctrl-C takes effect only at the end of a `held` block; a second Ctrl-C
    takes effect at once.

    Python would raise KeyboardInterrupt anywhere within an iteration, and leave its bookkeeping
    half done. Only the main thread gets KeyboardInterrupt; in other threads, and where the program
    handles SIGINT itself, this changes nothing.
    """

    def __init__(self) -> None:
        self._is_held, self._num_pending = False, 0
        self._before: Any = None

    def __enter__(self) -> _Interrupts:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    @contextmanager
    def held(self) -> Iterator[None]:
        """A block that Ctrl-C does not interrupt. Raises KeyboardInterrupt at its end if there was
        one."""
        self._is_held = True
        try:
            yield
        finally:
            self._is_held = False
        if self._num_pending:
            self._num_pending = 0
            raise KeyboardInterrupt

    def _take(self, *_: object) -> None:
        if not self._is_held or self._num_pending:
            raise KeyboardInterrupt
        self._num_pending += 1
