"""Owns the stream of a request's deltas that asyncio code reads, the deltas that were not read yet,
and the cancel when the reader leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from specguide.errors import SpecguideError
from specguide.request import FinishReason
from specguide.request_records import Iteration, Logprob, OutputSpan, RequestMetrics


class RequestDelta(msgspec.Struct, frozen=True):
    """The new output of one sample since its last delta.

    text:          the text that has become certain; it is never taken back, and may be empty
    token_ids:     its new tokens; the text of the last ones may not be certain yet
    finish_reason: None until the sample's last delta, as are stop_reason, error and metrics; they
                   are as in RequestOutput
    index:         index among the samples of its prompt
    logprobs:      the entries of token_ids, as in RequestOutput; None where they are not asked for
    prompt_logprobs: as in RequestOutput, with the sample's first delta; else None
    iterations:    the iterations since its last delta that gave it tokens or held it; None where
                   they are not asked for
    spans:         the spans that token_ids complete, as in RequestOutput; None where they are not
                   asked for
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason | None = None
    stop_reason: str | int | None = None
    error: SpecguideError | None = None
    metrics: RequestMetrics | None = None
    index: int = 0
    logprobs: tuple[dict[int, Logprob], ...] | None = None
    prompt_logprobs: tuple[dict[int, Logprob] | None, ...] | None = None
    iterations: tuple[Iteration, ...] | None = None
    spans: tuple[OutputSpan, ...] | None = None


class Mailbox:
    """A request's deltas that were not read yet. Only its event loop's thread uses it, except for
    `loop`."""

    def __init__(self, num_samples: int) -> None:
        self.loop = asyncio.get_running_loop()
        self.num_open = num_samples
        self._unread: dict[int, list[RequestDelta]] = {}
        self._waiter: asyncio.Future[None] | None = None

    def put(self, delta: RequestDelta) -> None:
        """Add a delta. Never waits: unread deltas of a sample are merged into one."""
        self._unread.setdefault(delta.index, []).append(delta)
        self.num_open -= delta.finish_reason is not None
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def take(self) -> RequestDelta | None:
        """Wait for a delta; None where no more will come. For one reader."""
        while not self._unread and self.num_open:
            self._waiter = self.loop.create_future()
            await self._waiter
        return _merged(self._unread.pop(next(iter(self._unread)))) if self._unread else None


class RequestStream:
    """A request's deltas, for `async for`. It ends after each sample has had its last delta, which
    has a finish_reason.

    A reader who leaves cancels the request: by `break`, by being cancelled, by `aclose`, or by
    dropping the stream.
    """

    def __init__(self, mailbox: Mailbox, cancel: Callable[[], None]) -> None:
        self._mailbox, self._cancel = mailbox, cancel
        self._is_left = False

    def __aiter__(self) -> RequestStream:
        return self

    async def __anext__(self) -> RequestDelta:
        try:
            delta = None if self._is_left else await self._mailbox.take()
        except asyncio.CancelledError:
            self._leave()
            raise
        if delta is None:
            raise StopAsyncIteration
        return delta

    async def aclose(self) -> None:
        """Cancel the request, unless it has ended, and read nothing more."""
        self._leave()

    def __del__(self) -> None:
        self._leave()

    def _leave(self) -> None:
        if not self._is_left and self._mailbox.num_open:
            self._cancel()
        self._is_left = True


def deliver(deltas: Iterable[tuple[Mailbox, RequestDelta]]) -> None:
    """Put deltas into mailboxes of one event loop, on its thread."""
    for mailbox, delta in deltas:
        mailbox.put(delta)


def _merged(deltas: list[RequestDelta]) -> RequestDelta:
    last = deltas[-1]
    if len(deltas) == 1:
        return last
    return replace(
        last,
        text="".join(delta.text for delta in deltas),
        token_ids=tuple(token for delta in deltas for token in delta.token_ids),
        prompt_logprobs=deltas[0].prompt_logprobs,
        **{name: _joined(deltas, name) for name in ("logprobs", "iterations", "spans")},
    )


def _joined(deltas: list[RequestDelta], name: str) -> tuple[Any, ...] | None:
    """The entries of a field in all deltas; None where it is not asked for."""
    if getattr(deltas[-1], name) is None:
        return None
    return tuple(one for delta in deltas for one in getattr(delta, name) or ())
