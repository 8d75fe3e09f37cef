"""Owns the prefill side of a transfer: which prompts others have asked for, and the pages that they
are sent."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

import zmq

from specguide.engine.kv_transfer.base import EngineSide
from specguide.engine.kv_transfer.cache_format import format_of
from specguide.engine.kv_transfer.link import Link
from specguide.engine.kv_transfer.wire import (
    ENCODER,
    FROM_DECODE,
    MALFORMED,
    Fetch,
    Forget,
    Pages,
    Refused,
    difference,
)
from specguide.engine.stats import no_transfers
from specguide.request import Request

_MOST_UNDER_WAY = 1024
_BYTES_A_TOKEN = 9
_MOST_TOKENS = 1 << 20
"""Tokens of a prompt that can be read, at least. One that is longer than this engine takes is
refused alone, while a message beyond the link's limit closes the connection for all requests."""
_SMALL_FRAME = 1 << 16


@dataclass(frozen=True)
class _Asked:
    name: bytes
    fetch: Fetch
    since_s: float


@dataclass(frozen=True)
class _Forgotten:
    name: bytes
    number: int


class PrefillSide:
    """A `Transfer`. Each prompt that others ask for becomes a request of one token. Its pages are
    read when it has ended, before the next iteration is planned."""

    refusal = (
        "this engine has the role 'prefill': it computes prompts for other engines and generates "
        "nothing. Send requests to an engine with the role 'decode'"
    )

    def __init__(self, engine: EngineSide) -> None:
        self._engine = engine
        self.counts = no_transfers()
        self._format = format_of(engine.config, engine.caches)
        self._news: deque[_Asked | _Forgotten] = deque()
        self._asked: dict[Request, _Asked] = {}
        num_tokens = max(engine.config.max_model_len, _MOST_TOKENS)
        longest = _BYTES_A_TOKEN * num_tokens + _SMALL_FRAME
        address = engine.config.transfer.kv_transfer_address
        self._link = Link(address, self._take, listens=True, max_frame_bytes=longest)

    @property
    def has_news(self) -> bool:
        return bool(self._news)

    def take_up(self) -> list[Request]:
        while self._news:
            asked = self._news.popleft()
            if isinstance(asked, _Forgotten):
                self._cancel(asked)
                continue
            self.counts["requests"] += 1
            cause = self._objection(asked.fetch)
            if cause is None:
                request = self._engine.add(asked.fetch.prompt_ids, asked.fetch.adapter)
                self._asked[request] = asked
            else:
                self._refuse(asked, cause)
        return []

    def begin(self, request: Request) -> None: ...

    def holds(self, request: Request) -> bool:
        return False

    def end(self, request: Request) -> None:
        asked = self._asked.pop(request, None)
        if asked is None:
            return
        if request.error is not None or request.finish_reason == "abort":
            self._refuse(asked, f"the prompt could not be computed: {request.error or 'aborted'}")
            return
        self._send(asked)

    def close(self) -> None:
        self._link.close()

    def _take(self, frames: list[zmq.Frame]) -> None:
        """Take a message, on the link's thread."""
        try:
            name, message = (frame.bytes for frame in frames)
            said = FROM_DECODE.decode(message)
        except (ValueError, *MALFORMED):
            return  # the message has no readable number that could be answered
        if isinstance(said, Forget):
            self._news.append(_Forgotten(name, said.number))
        else:
            self._news.append(_Asked(name, said, time.perf_counter()))
        self._engine.wake()

    def _cancel(self, forgotten: _Forgotten) -> None:
        for request, asked in self._asked.items():
            if (asked.name, asked.fetch.number) == (forgotten.name, forgotten.number):
                del self._asked[request]
                self._engine.cancel(request)
                return

    def _objection(self, fetch: Fetch) -> str | None:
        differing = difference(self._format, fetch.format)
        if differing is not None:
            return (
                f"the KV pages of the two engines differ: {differing}; start both with the same "
                "model, adapters, draft head and cache options"
            )
        ids = fetch.prompt_ids
        if not ids or min(ids) < 0 or max(ids) >= self._engine.vocab_size:
            return (
                "the prompt is empty, or has token ids outside the vocabulary of "
                f"{self._engine.vocab_size}"
            )
        if not 0 <= fetch.adapter <= len(self._engine.config.adapters):
            return f"there is no adapter with the number {fetch.adapter}"
        if not 0 <= fetch.first < fetch.end:
            return "the message asks for no pages"
        if len(self._asked) >= _MOST_UNDER_WAY:
            return (
                f"the prefill engine computes {_MOST_UNDER_WAY} prompts already, and takes no more "
                "at once"
            )
        return None

    def _send(self, asked: _Asked) -> None:
        """Send those of the wanted pages that the cache has, in blocks."""
        engine, fetch = self._engine, asked.fetch
        keys = engine.prompt_keys(fetch.prompt_ids, fetch.adapter)
        pages = self._shared(keys[fetch.first : fetch.end])
        step = engine.pages_a_block
        for start in range(0, len(pages), step):
            block = pages[start : start + step]
            is_last = start + step >= len(pages)
            header = Pages(fetch.number, fetch.first + start, len(block), is_last)
            with engine.forward.current():
                contents = [cache.read_pages(block).numpy().data for cache in engine.caches]
            self._link.send([asked.name, ENCODER.encode(header), *contents])
        engine.pages.free(pages)
        if not pages:
            self._refuse(
                asked,
                "the pages were reused before they could be sent; give the prefill engine a larger "
                "KV cache",
            )
            return
        self.counts["pages"] += len(pages)
        self.counts["bytes"] += len(pages) * engine.page_bytes
        self.counts["seconds"] += time.perf_counter() - asked.since_s

    def _shared(self, keys: list[bytes]) -> list[int]:
        pages: list[int] = []
        for key in keys:
            page = self._engine.pages.share(key)
            if page is None:
                break
            pages.append(page)
        return pages

    def _refuse(self, asked: _Asked, cause: str) -> None:
        self.counts["fallbacks"] += 1
        self._link.send([asked.name, ENCODER.encode(Refused(asked.fetch.number, cause))])
