"""Owns the thread that steps an engine for asyncio code. While it runs, no other thread touches the
engine."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from specguide.config.keywords import check_stream
from specguide.engine.engine import Engine
from specguide.engine.requests.prompts import Prompt, params_list
from specguide.engine.serving.loop import EngineLoop
from specguide.engine.serving.served import (
    CloseReport,
    EngineHealth,
    check_room,
    check_wait,
    in_time,
)
from specguide.engine.serving.stream import Mailbox, RequestDelta, RequestStream, deliver
from specguide.engine.stats import EngineStats
from specguide.errors import EngineClosed, EngineError, InvalidParams
from specguide.guided.backends import CompiledGrammar
from specguide.other_engines import OTHER_ASYNC_ATTRIBUTES, missing
from specguide.params import SamplingParams
from specguide.request import EXTERNAL_ID
from specguide.trace import Span

T = TypeVar("T")


class _Commands:
    """An `Inbox`: a queue of calls to the loop, filled from any thread."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()  # safe to use in __del__

    def put(self, call: Callable[[], None]) -> None:
        self._calls.put(call)

    def wake(self) -> None:
        self._calls.put(lambda: None)

    def take(self, wait_s: float) -> None:
        try:
            if wait_s > 0:
                self._calls.get(timeout=wait_s)()
            while True:
                self._calls.get_nowait()()
        except Empty:
            return


class _Mailboxes:
    """An `Outbox` that puts deltas into mailboxes, with one call for each event loop."""

    def send(self, news: Sequence[tuple[Mailbox, RequestDelta]]) -> Sequence[Mailbox]:
        gone: list[Mailbox] = []
        for loop in {mailbox.loop for mailbox, _ in news}:
            letters = [letter for letter in news if letter[0].loop is loop]
            try:
                loop.call_soon_threadsafe(deliver, letters)
            except RuntimeError:  # the loop is closed, and its readers are gone
                gone += [mailbox for mailbox, _ in letters]
        return gone

    def fail(self, error: EngineError) -> None:
        """Does nothing: `health` reports the failure."""


class AsyncEngine:
    """Runs an engine in a thread of its own, and streams its outputs to asyncio code in any event
    loop.

    The thread sleeps while there is nothing to do, and never waits for a reader. The logger
    "specguide.requests" writes one line of JSON, level INFO, for each request that has ended.

    engine:      belongs to this object from now on, which closes it
    max_waiting: most requests under way beyond the engine's slots; each sample counts
    max_wait_s: a request is refused if it would probably wait longer for a slot, seconds
    max_unfinished: most requests under way in all
    Raises InvalidParams for a negative max_waiting.
    """

    def __init__(
        self, engine: Engine, *, max_waiting: int = 1024, max_wait_s: float = math.inf
    ) -> None:
        if max_waiting < 0:
            raise InvalidParams(
                f"max_waiting must be ≥ 0, found {max_waiting}: give a large number for no limit",
                param="max_waiting",
            )
        self.config, self.tokenizer = engine.config, engine.tokenizer
        self.vocab_size, self.max_model_len = engine.vocab_size, engine.max_model_len
        self._engine = engine
        self.max_unfinished = engine.config.max_batch_size + max_waiting
        self._max_wait_s = max_wait_s
        self._commands = _Commands()
        self._loop: EngineLoop[Mailbox] = EngineLoop(engine, self._commands, _Mailboxes())
        self._lock = threading.Lock()  # guards the next two
        self._num_taken, self._is_closing = 0, False
        self._closed: Future[CloseReport] = Future()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise missing(self, name, OTHER_ASYNC_ATTRIBUTES)

    @property
    def health(self) -> EngineHealth:
        """Unhealthy for good once the engine has failed or is being closed."""
        cause = self._loop.failure or (
            EngineClosed("the engine is being closed") if self._is_closing else None
        )
        return EngineHealth(cause)

    @property
    def num_unfinished(self) -> int:
        """Number of requests under way; each sample counts."""
        return self._num_taken - self._loop.num_ended

    def generate(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *ids: Any,
        priority: int = 0,
        client: str = "",
        **others: Any,
    ) -> RequestStream:
        """Continue a prompt, given as text or token ids: `async for delta in engine.generate(…)`.
        Needs a running event loop.

        priority: each step is worth a head start, see scheduler.sequence
        client:   who asks; clients that wait take turns
        ids, others: what AsyncLLM takes in vLLM: refused with what to do, or of no effect
        Errors that are found later, for example in its guide, are the `error` of its last delta.
        Raises InvalidParams for a wrong prompt, for what are no parameters and for more samples
        than there is ever room for, QueueFull where too many requests are under way or it would
        wait too long, EngineError where the engine has failed, EngineClosed where it is closed.
        """
        if ids or others:
            check_stream(ids, others)
        (params,) = params_list(params, 1)
        arrival_s = time.perf_counter()
        prompt_ids = self._engine.prompt_ids(prompt)
        mailbox = Mailbox(params.n)
        add = partial(
            self._engine.add,
            prompt_ids,
            params,
            priority=priority,
            arrival_s=arrival_s,
            client=client,
            external_id=EXTERNAL_ID.get(),
        )
        with self._lock:
            self.health.check()
            check_room(params.n, self.num_unfinished, self.max_unfinished)
            check_wait(self._engine.wait_s(client, priority), self._max_wait_s)
            self._num_taken += params.n
            self._commands.put(partial(self._loop.add, mailbox, params.n, add))
        cancel = partial(self._loop.cancel, mailbox)
        return RequestStream(mailbox, partial(self._commands.put, cancel))

    def grammar_of(self, params: SamplingParams) -> CompiledGrammar | None:
        """See Engine.grammar_of."""
        return self._engine.grammar_of(params)

    async def spans(self) -> list[Span]:
        """See Engine.spans; called between two iterations. Raises EngineError where the engine's
        thread does not answer in time."""
        found: Future[list[Span]] = Future()
        self._commands.put(partial(_answer, found, self._engine.spans))
        return await in_time(asyncio.wrap_future(found))

    async def refresh_stats(self) -> None:
        """Does nothing: `stats` are always up to date."""

    def stats(self) -> EngineStats:
        """See Engine.stats. From any thread."""
        return self._engine.stats()

    async def close(self, timeout_s: float = 30.0) -> CloseReport:
        """Take no more requests, wait until those under way have ended, then abort the rest and
        stop the engine.

        timeout_s: longest wait before requests are aborted
        """
        with self._lock:
            is_first = not self._is_closing
            self._is_closing = True
        if is_first:
            self._commands.put(partial(self._loop.begin_close, timeout_s))
        report = await asyncio.shield(asyncio.wrap_future(self._closed))
        self._thread.join()  # else it might release the engine while the process ends
        return report

    async def __aenter__(self) -> AsyncEngine:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _run(self) -> None:
        self._closed.set_result(self._loop.run())


def _answer(asked: Future[T], ask: Callable[[], T]) -> None:
    if asked.set_running_or_notify_cancel():
        try:
            asked.set_result(ask())
        except Exception as error:  # goes to the caller who waits for the answer
            asked.set_exception(error)
