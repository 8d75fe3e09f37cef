"""Owns the thread that steps an engine for asyncio code. No other thread touches the engine while
it runs."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from queue import Empty, SimpleQueue
from typing import TypeVar

from specguide.engine.engine import Engine
from specguide.engine.failures import told
from specguide.engine.stats import EngineStats, request_record
from specguide.engine.stream import Mailbox, RequestDelta, RequestStream, deliver
from specguide.errors import EngineClosed, EngineError, InvalidParams, QueueFull
from specguide.guided.backends import CompiledGrammar
from specguide.params import SamplingParams
from specguide.request import Request, RequestMetrics
from specguide.trace import Span

T = TypeVar("T")

_LONGEST_SLEEP_S = 3600.0
_LONGEST_ANSWER_S = 10.0
_LOGGER = logging.getLogger(__name__)
_REQUEST_LOGGER = logging.getLogger("specguide.requests")


@dataclass(frozen=True)
class EngineHealth:
    """Whether the engine takes requests; `cause` says why not."""

    is_healthy: bool
    cause: EngineError | None = None


@dataclass(frozen=True)
class CloseReport:
    """What closing waited for: how long, seconds, and how many requests ended in that time or had
    to be aborted."""

    waited_s: float
    num_ended: int
    num_aborted: int

    def __str__(self) -> str:
        return (
            f"waited {self.waited_s:.2f} s for {self.num_ended + self.num_aborted} requests: "
            f"{self.num_ended} "
            f"ended, {self.num_aborted} were aborted"
        )


@dataclass(eq=False)
class _Live:
    """A sample under way: where its deltas go, its request, and how many of its tokens and
    iterations were sent."""

    mailbox: Mailbox
    sample: int
    request: Request | None = None
    num_sent: int = 0
    num_iterations_sent: int = 0

    def take(self, failure: EngineError | None) -> RequestDelta | None:
        """What is new, if anything is; the last delta where its request has ended or the engine has
        failed."""
        request = self.request
        if request is None:
            return None if failure is None else self.fail(failure)
        token_ids = tuple(request.output_ids[self.num_sent :])
        logprobs = (
            None if request.params.logprobs is None else tuple(request.logprobs[self.num_sent :])
        )
        prompt_logprobs = (
            tuple(request.prompt_logprobs)
            if request.spec.has_prompt_logprobs and not self.num_sent
            else None
        )
        if request.finish_reason is None and failure is None and not token_ids:
            return None
        iterations = (
            tuple(request.iterations[self.num_iterations_sent :])
            if request.params.return_drafts
            else None
        )
        self.num_sent += len(token_ids)
        self.num_iterations_sent += len(iterations or ())
        news = RequestDelta(
            request.text.take(),
            token_ids,
            index=self.sample,
            logprobs=logprobs,
            prompt_logprobs=prompt_logprobs,
            iterations=iterations,
        )
        if request.finish_reason is None and failure is None:
            return news
        return replace(
            news,
            finish_reason=request.finish_reason or "error",
            stop_reason=request.stop_reason,
            error=request.error if request.finish_reason else failure,
            metrics=request.metrics,
        )

    def fail(self, failure: EngineError) -> RequestDelta:
        """The last delta where there is nothing to add to what was sent."""
        metrics = RequestMetrics() if self.request is None else self.request.metrics
        return RequestDelta("", (), "error", error=failure, metrics=metrics, index=self.sample)


class AsyncEngine:
    """Runs an engine in a thread of its own, and streams what it generates to asyncio code, of any
    event loop.

    The thread sleeps while there is nothing to do. It never waits for a reader. Each request that
    has ended is logged as one line of JSON by the logger "specguide.requests", level INFO.

    engine:      is this object's from now on, and closed by it
    max_waiting: most requests under way beyond the engine's slots; each sample counts
    max_unfinished: most requests under way in all
    """

    def __init__(self, engine: Engine, *, max_waiting: int = 1024) -> None:
        self.config, self.tokenizer = engine.config, engine.tokenizer
        self.vocab_size, self.max_model_len = engine.vocab_size, engine.max_model_len
        self._engine = engine
        self.max_unfinished = engine.config.max_batch_size + max_waiting
        self._commands: SimpleQueue[Callable[[], None]] = (
            SimpleQueue()
        )  # may be put to from __del__
        engine.on_ready = lambda: self._commands.put(lambda: None)
        self._lock = threading.Lock()  # over the next two
        self._num_taken, self._is_closing = 0, False
        self._num_ended = 0  # changed by the engine's thread alone, as all that follows
        self._failure: EngineError | None = None
        self._live: list[_Live] = []
        self._close_at_s: float | None = None
        self._closing_since_s, self._num_awaited = 0.0, 0
        self._closed: Future[CloseReport] = Future()
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._thread.start()

    @property
    def health(self) -> EngineHealth:
        """Unhealthy once the engine has failed, for good, and once it is being closed."""
        cause = self._failure or (
            EngineClosed("the engine is being closed") if self._is_closing else None
        )
        return EngineHealth(cause is None, cause)

    @property
    def num_unfinished(self) -> int:
        """Requests under way, each sample counted."""
        return self._num_taken - self._num_ended

    def generate(
        self,
        prompt: str | Sequence[int],
        params: SamplingParams | None = None,
        *,
        priority: int = 0,
        client: str = "",
    ) -> RequestStream:
        """Continue a prompt, a text or token ids: `async for delta in engine.generate(…)`. Needs a
        running event loop.

        priority: each step is worth a head start, see scheduler.sequence
        client:   who asks; clients that wait take turns
        What is wrong with the request later, its guide say, is its last delta's `error`. Raises
        InvalidParams for the prompt and for more samples than there is ever room for, QueueFull
        where too many requests are under way, EngineError where the engine has failed, EngineClosed
        where it is closed.
        """
        params, arrival_s = params or SamplingParams(), time.perf_counter()
        prompt_ids = self._engine.prompt_ids(prompt)
        mailbox = Mailbox(params.n)
        add = partial(self._engine.add, prompt_ids, params, priority=priority)
        add = partial(add, arrival_s=arrival_s, client=client)
        with self._lock:
            self._check_room(params.n)
            self._num_taken += params.n
            self._commands.put(partial(self._add, mailbox, params.n, add))
        return RequestStream(mailbox, partial(self._commands.put, partial(self._cancel, mailbox)))

    def grammar_of(self, params: SamplingParams) -> CompiledGrammar | None:
        """As Engine.grammar_of."""
        return self._engine.grammar_of(params)

    async def spans(self) -> list[Span]:
        """As Engine.spans, between two iterations. Raises EngineError where the engine's thread has
        no time for it."""
        found: Future[list[Span]] = Future()
        self._commands.put(partial(_answer, found, self._engine.spans))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(found), _LONGEST_ANSWER_S)
        except asyncio.TimeoutError:
            raise EngineError(
                f"the engine did not give its timeline within {_LONGEST_ANSWER_S:g} s"
            ) from None

    def stats(self) -> EngineStats:
        """What the engine has done, and how it stands. From any thread."""
        return self._engine.stats()

    async def close(self, timeout_s: float = 30.0) -> CloseReport:
        """Take no more requests, wait until those under way have ended, then abort the rest and
        stop the engine.

        timeout_s: longest wait before requests are aborted
        """
        with self._lock:
            is_first, self._is_closing = not self._is_closing, True
        if is_first:
            self._commands.put(partial(self._begin_close, time.perf_counter() + timeout_s))
        return await asyncio.shield(asyncio.wrap_future(self._closed))

    async def __aenter__(self) -> AsyncEngine:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _check_room(self, num_samples: int) -> None:
        health = self.health
        if health.cause is not None:
            raise type(health.cause)(f"no request is taken: {health.cause}") from health.cause
        if num_samples > self.max_unfinished:
            raise InvalidParams(
                f"n = {num_samples} samples are more than the {self.max_unfinished} requests that "
                "there is room for; ask for fewer, or raise max_waiting",
                param="n",
            )
        if self.num_unfinished + num_samples > self.max_unfinished:
            raise QueueFull(
                f"{self.num_unfinished} requests are under way and there is room for "
                f"{self.max_unfinished}; try again later, or raise max_waiting"
            )

    def _run(self) -> None:
        while not self._closing_is_over():
            try:
                self._take_commands()
                if self._failure is None and self._engine.idle_s() == 0:
                    self._engine.step()
                if self._engine.failure is not None and self._failure is None:
                    raise self._engine.failure
                self._publish()
            except BaseException as cause:  # whatever it was, an exit too, nobody may wait for ever
                self._fail(cause)
        self._end_close()

    def _take_commands(self) -> None:
        """All there are; sleeps until there is one if there is nothing else to do."""
        wait_s = self._wait_s()
        try:
            if wait_s > 0:
                self._commands.get(timeout=min(wait_s, _LONGEST_SLEEP_S))()
            while True:
                self._commands.get_nowait()()
        except Empty:
            return

    def _wait_s(self) -> float:
        idle_s = math.inf if self._failure else self._engine.idle_s()
        return (
            idle_s
            if self._close_at_s is None
            else min(idle_s, self._close_at_s - time.perf_counter())
        )

    def _add(self, mailbox: Mailbox, num_samples: int, add: Callable[..., Request]) -> None:
        """add: Engine.add of the request, but for its `sample`"""
        lives = [_Live(mailbox, sample) for sample in range(num_samples)]
        self._live += lives
        if self._failure is None:
            for live in lives:
                live.request = add(sample=live.sample)

    def _cancel(self, mailbox: Mailbox) -> None:
        self._cancel_all([live for live in self._live if live.mailbox is mailbox])

    def _cancel_all(self, lives: Iterable[_Live]) -> None:
        for live in lives:
            if live.request is not None and self._failure is None:
                self._engine.cancel(live.request)

    def _publish(self) -> None:
        """Send what is new, in one go for each event loop; let go of what has ended."""
        news = [(live, delta) for live in self._live if (delta := self._news_of(live)) is not None]
        ended = {id(live) for live, delta in news if delta.finish_reason is not None}
        if ended:
            _log([live.request for live in self._live if id(live) in ended])
            self._live = [live for live in self._live if id(live) not in ended]
            self._num_ended += len(ended)
        for loop in {live.mailbox.loop for live, _ in news}:
            letters = [(live, delta) for live, delta in news if live.mailbox.loop is loop]
            try:
                loop.call_soon_threadsafe(
                    deliver, [(live.mailbox, delta) for live, delta in letters]
                )
            except RuntimeError:  # the loop is closed, and its readers are gone
                self._cancel_all(live for live, _ in letters)

    def _news_of(self, live: _Live) -> RequestDelta | None:
        try:
            return live.take(self._failure)
        except BaseException:  # say of a tokenizer, which may be what the engine has failed with
            if self._failure is None:
                raise
            return live.fail(self._failure)

    def _fail(self, cause: BaseException) -> None:
        """The engine cannot be trusted any more: all requests end, and those that are yet to be
        taken up will."""
        if self._failure is None:
            self._failure = (
                cause
                if isinstance(cause, EngineError)
                else EngineError(f"the engine failed: {told(cause)}")
            )
            _LOGGER.error("no more requests are taken: %s", self._failure, exc_info=cause)
        self._publish()

    def _begin_close(self, close_at_s: float) -> None:
        self._close_at_s, self._closing_since_s = close_at_s, time.perf_counter()
        self._num_awaited = len(self._live)

    def _closing_is_over(self) -> bool:
        return self._close_at_s is not None and (
            not self._live or time.perf_counter() >= self._close_at_s
        )

    def _end_close(self) -> None:
        num_aborted = len(self._live)
        report = CloseReport(
            time.perf_counter() - self._closing_since_s,
            self._num_awaited - num_aborted,
            num_aborted,
        )
        _LOGGER.info("closed: %s", report)
        try:
            self._cancel_all(self._live)
            self._publish()
            self._engine.close()
        except BaseException as cause:
            _LOGGER.warning("the engine could not be closed in order: %s", cause, exc_info=cause)
            self._fail(cause)
        self._closed.set_result(report)


def _answer(asked: Future[T], ask: Callable[[], T]) -> None:
    if asked.set_running_or_notify_cancel():
        try:
            asked.set_result(ask())
        except Exception as error:  # is whose asked
            asked.set_exception(error)


def _log(requests: Iterable[Request | None]) -> None:
    if _REQUEST_LOGGER.isEnabledFor(logging.INFO):
        for request in requests:
            if request is not None:
                _REQUEST_LOGGER.info(json.dumps(request_record(request), ensure_ascii=False))
