"""Owns the loop of a serving engine: it takes commands, runs iterations, sends deltas, and handles
failure and closing."""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Iterable, KeysView, Sequence
from typing import Generic, Protocol, TypeVar

from specguide.engine.engine import Engine
from specguide.engine.requests.failures import in_words
from specguide.engine.serving.live import Live
from specguide.engine.serving.served import CloseReport
from specguide.engine.serving.stream import RequestDelta
from specguide.engine.stats import request_record
from specguide.errors import EngineError
from specguide.request import Request

K = TypeVar("K")

LONGEST_SLEEP_S = 3600.0
_LOGGER = logging.getLogger(__name__)
REQUEST_LOGGER = logging.getLogger("specguide.requests")


class Inbox(Protocol):
    """The source of commands to a loop."""

    def take(self, wait_s: float) -> None:
        """Carry out all commands that have come. Waits at most wait_s seconds for the first."""

    def wake(self) -> None:
        """End a wait of `take`. From any thread."""


class Outbox(Protocol[K]):
    """The destination of a loop's deltas. K: the key of a request"""

    def send(self, news: Sequence[tuple[K, RequestDelta]]) -> Sequence[K]:
        """Send the deltas of one iteration. Never waits. Returns the keys of requests whose readers
        are gone."""

    def fail(self, error: EngineError) -> None:
        """Report that the engine has failed; called after all deltas were sent."""


class EngineLoop(Generic[K]):
    """Steps an engine on the thread that calls `run`. Commands call the other methods, on the same
    thread. K: the key of a request.

    The logger "specguide.requests" writes one line of JSON, level INFO, for each request that has
    ended.

    failure:    why the engine cannot run any more; None while it can
    num_ended:  number of samples that have ended
    is_closing: `begin_close` was called
    """

    def __init__(self, engine: Engine, inbox: Inbox, outbox: Outbox[K]) -> None:
        self._engine, self._inbox, self._outbox = engine, inbox, outbox
        engine.on_ready = inbox.wake
        self.failure: EngineError | None = None
        self.num_ended = 0
        self._live: dict[K, list[Live]] = {}
        self.is_closing = False
        self._close_at_s = math.inf
        self._closing_since_s, self._num_awaited = 0.0, 0

    @property
    def num_live(self) -> int:
        """Number of samples under way."""
        return sum(map(len, self._live.values()))

    @property
    def live(self) -> KeysView[K]:
        """Keys of the requests under way."""
        return self._live.keys()

    def run(self) -> CloseReport:
        """Run the engine until it is closed."""
        while not self._closing_is_over():
            try:
                self._inbox.take(self._wait_s())
                if self.failure is None and self._engine.idle_s() == 0:
                    self._engine.step()
                if self._engine.failure is not None and self.failure is None:
                    raise self._engine.failure
                self._publish()
            except BaseException as cause:  # even an exit: no reader may wait for ever
                self._fail(cause)
        return self._end_close()

    def add(self, key: K, num_samples: int, add: Callable[..., Request]) -> None:
        """Add the samples of a request. Its errors come with its deltas.

        add: Engine.add with all arguments but `sample`
        """
        lives = self._live[key] = [Live(sample) for sample in range(num_samples)]
        if self.failure is None:
            for live in lives:
                live.request = add(sample=live.sample)

    def cancel(self, key: K) -> None:
        """End a request as aborted; does nothing where it has ended."""
        self._cancel_all(self._live.get(key, ()))

    def begin_close(self, timeout_s: float) -> None:
        """Let `run` end once all requests have ended, or after `timeout_s` seconds, when it aborts
        the rest."""
        self.is_closing = True
        self._closing_since_s = time.perf_counter()
        self._close_at_s = self._closing_since_s + timeout_s
        self._num_awaited = self.num_live

    def _wait_s(self) -> float:
        idle_s = math.inf if self.failure else self._engine.idle_s()
        wait_s = min(idle_s, self._close_at_s - time.perf_counter(), LONGEST_SLEEP_S)
        return max(0.0, wait_s)

    def _publish(self) -> None:
        """Send all new deltas at once, and forget the samples that have ended."""
        news = [
            (key, live, delta)
            for key, lives in self._live.items()
            for live in lives
            if (delta := self._news_of(live)) is not None
        ]
        ended = [(key, live) for key, live, delta in news if delta.finish_reason is not None]
        for key, live in ended:
            self._live[key].remove(live)
            if not self._live[key]:
                del self._live[key]
        _log(live.request for _, live in ended)
        self.num_ended += len(ended)
        if news:
            for key in self._outbox.send([(key, delta) for key, _, delta in news]):
                self.cancel(key)

    def _news_of(self, live: Live) -> RequestDelta | None:
        try:
            return live.take(self.failure)
        except BaseException:  # perhaps the same error with which the engine has failed
            if self.failure is None:
                raise
            return live.fail(self.failure)

    def _cancel_all(self, lives: Iterable[Live]) -> None:
        for live in lives:
            if live.request is not None and self.failure is None:
                self._engine.cancel(live.request)

    def _fail(self, cause: BaseException) -> None:
        """Mark the engine as failed: it cannot be trusted any more. All requests end, also those
        that are added later."""
        is_first = self.failure is None
        if self.failure is None:
            self.failure = (
                cause
                if isinstance(cause, EngineError)
                else EngineError(f"the engine failed: {in_words(cause)}")
            )
            _LOGGER.error("the engine takes no more requests: %s", self.failure, exc_info=cause)
        self._publish()
        if is_first:
            self._outbox.fail(self.failure)

    def _closing_is_over(self) -> bool:
        return self.is_closing and (not self._live or time.perf_counter() >= self._close_at_s)

    def _end_close(self) -> CloseReport:
        num_aborted = self.num_live
        waited_s = time.perf_counter() - self._closing_since_s
        report = CloseReport(waited_s, self._num_awaited - num_aborted, num_aborted)
        _LOGGER.info("the engine is closed: %s", report)
        try:
            for lives in self._live.values():
                self._cancel_all(lives)
            self._publish()
            self._engine.close()
        except BaseException as cause:
            _LOGGER.warning("closing the engine failed: %s", cause, exc_info=cause)
            self._fail(cause)
        return report


def _log(requests: Iterable[Request | None]) -> None:
    if REQUEST_LOGGER.isEnabledFor(logging.INFO):
        for request in requests:
            if request is not None:
                REQUEST_LOGGER.info(json.dumps(request_record(request), ensure_ascii=False))
