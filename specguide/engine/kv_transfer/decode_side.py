"""Owns the decode side of a transfer: which prompts it has asked for, and how received pages enter
its cache."""

from __future__ import annotations

import logging
import time
from collections import deque
from dataclasses import dataclass, field
from itertools import count

import torch
import zmq

from specguide.engine.kv_transfer.base import EngineSide
from specguide.engine.kv_transfer.cache_format import format_of
from specguide.engine.kv_transfer.link import Frames, Link
from specguide.engine.kv_transfer.wire import (
    ENCODER,
    FROM_DECODE,
    FROM_PREFILL,
    MALFORMED,
    Fetch,
    Forget,
    Pages,
    Refused,
)
from specguide.engine.stats import no_transfers
from specguide.request import Request

_SMALL_FRAME = 1 << 16
_BLOCKS_A_STEP = 2
"""Most blocks that are copied into the cache between two iterations."""
_LATE = "they did not come within kv_transfer_timeout_s"
_LOGGER = logging.getLogger(__name__)

Prompt = tuple[int, tuple[int, ...]]
"""The adapter that computes a prompt, and the prompt's token ids."""

News = tuple[Pages | Refused, list[zmq.Frame]]


@dataclass(eq=False)
class _Fetch:
    """A prompt that was asked for. next: index of the page that comes next; waiting: the requests
    that need it"""

    number: int
    prompt: Prompt
    keys: list[bytes]
    next: int
    since_s: float
    waiting: set[Request] = field(default_factory=set)


class DecodeSide:
    """A `Transfer`. A request waits until the pages of its prompt have come, at most for
    kv_transfer_timeout_s. Then it runs, and computes only what the cache does not have.

    After a time-out, nothing is asked for another kv_transfer_timeout_s, so that a peer that hangs
    delays few requests.
    """

    refusal: str | None = None

    def __init__(self, engine: EngineSide) -> None:
        self._engine = engine
        self.counts = no_transfers()
        self._timeout_s = engine.config.transfer.kv_transfer_timeout_s
        self._format = format_of(engine.config, engine.caches)
        self._numbers = count()
        self._quiet_until_s = 0.0
        self._news: deque[News] = deque()
        self._fetches: dict[int, _Fetch] = {}
        self._by_prompt: dict[Prompt, _Fetch] = {}
        self._ready: list[Request] = []
        self._deadlines: deque[tuple[int, float]] = deque()
        largest = max(cache.page_bytes for cache in engine.caches) * engine.pages_a_block
        self._link = Link(
            engine.config.transfer.kv_transfer_address,
            self._take,
            listens=False,
            max_frame_bytes=largest + _SMALL_FRAME,
            not_sent=self._not_sent,
            on_lost=self._lost,
            on_tick=self._look_at_deadlines,
        )

    @property
    def has_news(self) -> bool:
        return bool(self._news)

    def begin(self, request: Request) -> None:
        prompt = adapter, prompt_ids = _prompt(request)
        is_refused = len(prompt_ids) >= self._engine.config.max_model_len
        if request.spec.has_prompt_logprobs or is_refused:
            return
        known = self._by_prompt.get(prompt)
        if known is not None:
            known.waiting.add(request)
            return
        now_s = time.perf_counter()
        if now_s < self._quiet_until_s:
            return
        keys = self._engine.prompt_keys(prompt_ids, adapter)
        first = next(
            (i for i, k in enumerate(keys) if not self._engine.pages.is_published(k)), None
        )
        end = None if first is None else min(len(keys), first + self._engine.pages.num_free)
        if first is not None and end is not None and first < end:
            fetch = _Fetch(next(self._numbers), prompt, keys[:end], first, now_s, {request})
            self._ask(fetch)

    def holds(self, request: Request) -> bool:
        fetch = self._by_prompt.get(_prompt(request))
        return fetch is not None and request in fetch.waiting

    def take_up(self) -> list[Request]:
        num_blocks = 0
        while self._news and num_blocks < _BLOCKS_A_STEP:
            message, frames = self._news.popleft()
            fetch = self._fetches.get(message.number)
            if fetch is None:
                continue
            if isinstance(message, Refused):
                self._fall_back(fetch, message.cause)
            else:
                num_blocks += 1
                self._fill(fetch, message, frames)
        ready, self._ready = self._ready, []
        return ready

    def end(self, request: Request) -> None:
        fetch = self._by_prompt.get(_prompt(request))
        if fetch is not None and request in fetch.waiting:
            fetch.waiting.remove(request)
            if not fetch.waiting:
                self._drop(fetch)
                self._forget(fetch)

    def close(self) -> None:
        self._link.close()

    def _ask(self, fetch: _Fetch) -> None:
        self.counts["requests"] += 1
        self._fetches[fetch.number] = self._by_prompt[fetch.prompt] = fetch
        adapter, ids = fetch.prompt
        end = len(fetch.keys)
        message = Fetch(fetch.number, self._format, list(ids), fetch.next, end, adapter)
        self._deadlines.append((fetch.number, fetch.since_s + self._timeout_s))
        self._link.send([ENCODER.encode(message)])

    def _fill(self, fetch: _Fetch, message: Pages, frames: list[zmq.Frame]) -> None:
        """Copy a block into the cache; on the stream, the copy follows all launched iterations."""
        engine, num_pages = self._engine, message.num_pages
        end = message.first + num_pages
        sizes = [num_pages * cache.page_bytes for cache in engine.caches]
        is_next = message.first == fetch.next and num_pages >= 1 and end <= len(fetch.keys)
        if not is_next or [len(frame) for frame in frames] != sizes:
            self._fall_back(fetch, "it sent other pages than those asked for")
            return
        if num_pages > engine.pages.num_free:
            self._fall_back(fetch, "the KV cache of this engine has no free pages for them")
            return
        pages = engine.pages.allocate(num_pages)
        with engine.forward.current():
            for cache, frame in zip(engine.caches, frames, strict=True):
                contents = torch.frombuffer(bytearray(frame.buffer), dtype=torch.uint8)
                cache.write_pages(pages, contents)
        for page, key in zip(pages, fetch.keys[fetch.next : end], strict=True):
            engine.pages.publish(page, key)
        engine.pages.free(pages)
        fetch.next = end
        self.counts["pages"] += num_pages
        self.counts["bytes"] += sum(sizes)
        if message.is_last:
            self._finish(fetch)

    def _finish(self, fetch: _Fetch) -> None:
        self.counts["seconds"] += time.perf_counter() - fetch.since_s
        self._touch(fetch)
        self._drop(fetch)
        self._ready += sorted(fetch.waiting, key=lambda request: request.request_id)

    def _drop(self, fetch: _Fetch) -> None:
        del self._fetches[fetch.number], self._by_prompt[fetch.prompt]

    def _forget(self, fetch: _Fetch) -> None:
        """Tell the prefill engine that the prompt is not needed any more."""
        self._link.send([ENCODER.encode(Forget(fetch.number))])

    def _touch(self, fetch: _Fetch) -> None:
        """Mark its pages as the last used, so that they are forgotten last."""
        pages = self._engine.pages
        found = [page for key in fetch.keys if (page := pages.share(key)) is not None]
        pages.free(found)

    def _fall_back(self, fetch: _Fetch, cause: str) -> None:
        self.counts["fallbacks"] += 1
        _LOGGER.warning(
            "the prefill engine at %s did not send the KV pages of a prompt of %d tokens: %s. This "
            "engine computes the prompt itself",
            self._engine.config.transfer.kv_transfer_address,
            len(fetch.prompt[1]),
            cause,
        )
        if cause == _LATE:
            self._quiet_until_s = time.perf_counter() + self._timeout_s
            self._forget(fetch)
        self._finish(fetch)

    def _tell(self, message: Pages | Refused, frames: list[zmq.Frame]) -> None:
        """Queue a message for the loop's thread. Called on the link's thread."""
        self._news.append((message, frames))
        self._engine.wake()

    def _take(self, frames: list[zmq.Frame]) -> None:
        try:
            message = FROM_PREFILL.decode(frames[0].buffer)
        except MALFORMED as error:
            _LOGGER.warning("dropped an unreadable message of the prefill engine: %s", error)
        else:
            self._tell(message, frames[1:])

    def _not_sent(self, frames: Frames) -> None:
        number = FROM_DECODE.decode(frames[0]).number
        self._tell(Refused(number, "the engine cannot be reached"), [])

    def _lost(self) -> None:
        for number in list(self._fetches):
            self._tell(Refused(number, "the connection was lost"), [])

    def _look_at_deadlines(self) -> None:
        while self._deadlines and self._deadlines[0][1] < time.perf_counter():
            number, _ = self._deadlines.popleft()
            if number in self._fetches:
                self._tell(Refused(number, _LATE), [])


def _prompt(request: Request) -> Prompt:
    return request.spec.adapter, tuple(request.prompt_ids)
