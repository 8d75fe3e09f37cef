"""Owns requests: the only code that changes a Request. First come, first served; prefill before decode."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from specguide.batch import Batch
from specguide.errors import EngineError, InvalidParams, PromptTooLong, SpecguideError
from specguide.request import FinishReason, Request
from specguide.scheduler.slots import SlotPool

if TYPE_CHECKING:
    from specguide.cache import PageAllocator


class Scheduler:
    """Admits requests by slots and pages, and plans one iteration at a time.

    `schedule` may be called again before the last plan's results are committed: a request that had ended by then runs
    along for nothing, and `commit` passes over it.

    A request is given all pages it can ever need when it is admitted, so a running request never runs out.

    max_model_len:    longest prompt plus output, tokens
    num_draft_tokens: K; every request needs room for K tokens beyond its last
    eos_token_ids:    the model's end tokens
    slot_is_idle:     says when a released slot may be used again
    """

    def __init__(self, *, max_batch_size: int, max_model_len: int, num_draft_tokens: int, page_size: int,
                 pages: PageAllocator, eos_token_ids: Sequence[int], slot_is_idle: Callable[[int], bool]) -> None:
        self._max_model_len = max_model_len
        self._num_draft_tokens = num_draft_tokens
        self._page_size = page_size
        self._pages = pages
        self._eos_token_ids = frozenset(eos_token_ids)
        self._slots = SlotPool(max_batch_size, slot_is_idle)
        self._waiting: deque[Request] = deque()
        self._prefilling: list[Request] = []
        self._decoding: list[Request] = []
        self._block_tables: dict[Request, tuple[int, ...]] = {}

    @property
    def num_unfinished(self) -> int:
        """Requests that wait or run."""
        return len(self._waiting) + self.num_running

    @property
    def num_running(self) -> int:
        """Requests that hold a slot."""
        return len(self._prefilling) + len(self._decoding)

    def add(self, request: Request) -> None:
        """Queue a request. Raises PromptTooLong or InvalidParams where it could never run."""
        if len(request.prompt_ids) >= self._max_model_len:
            raise PromptTooLong(
                f"the prompt has {len(request.prompt_ids)} tokens and the context holds {self._max_model_len}, "
                "output included; shorten the prompt or raise max_model_len", param="prompt")
        if self._num_pages(request) > self._pages.num_pages:
            raise InvalidParams(
                f"prompt and max_tokens need {self._num_pages(request)} cache pages and there are "
                f"{self._pages.num_pages}; lower max_tokens or give the cache more pages", param="max_tokens")
        request.max_len = min(len(request.prompt_ids) + request.params.max_tokens, self._max_model_len)
        request.end_ids = frozenset(request.params.stop_token_ids)
        if not request.params.ignore_eos:
            request.end_ids |= self._eos_token_ids
        self._waiting.append(request)

    def schedule(self) -> Batch | None:
        """Plan the next iteration: prefill what can be admitted, else decode; None where nothing can run."""
        self._admit()
        requests = tuple(self._prefilling or self._decoding)
        if not requests:
            return None
        is_prefill = bool(self._prefilling)
        self._decoding += self._prefilling
        self._prefilling.clear()
        return Batch(requests=requests, is_prefill=is_prefill,
                     block_tables=tuple(self._block_tables[request] for request in requests))

    def commit(self, batch: Batch, tokens: Sequence[Sequence[int]], errors: Mapping[int, SpecguideError]
               ) -> list[Request]:
        """Take an iteration's tokens, per request of the batch (none: it was held), and errors by slot.

        Returns the requests that finished; their slots and pages are released.
        """
        finished: list[Request] = []
        for request, new_tokens in zip(batch.requests, tokens, strict=True):
            if request.finish_reason is not None:
                continue
            if request.slot in errors:
                self._finish(request, "error", errors[request.slot])
            elif new_tokens:
                self._take_tokens(request, new_tokens, batch.is_prefill)
            else:
                request.metrics.num_held += 1
                if batch.is_prefill:  # it starts again
                    self._decoding.remove(request)
                    self._prefilling.append(request)
            if request.finish_reason is not None:
                finished.append(request)
        return finished

    def cancel(self, request: Request, error: SpecguideError | None = None) -> None:
        """End one request, wherever it is, also before `add`: with `error`, or as aborted. Its slot and pages are free.

        It runs along for nothing in iterations that are under way.
        """
        if request in self._waiting:
            self._waiting.remove(request)
        self._finish(request, "error" if error else "abort", error)

    def abort(self, error: SpecguideError | None = None) -> list[Request]:
        """End every request that waits or runs: with `error`, or as aborted."""
        requests = [*self._waiting, *self._prefilling, *self._decoding]
        self._waiting.clear()
        for request in requests:
            self._finish(request, "error" if error else "abort", error)
        return requests

    def check_integrity(self) -> None:
        """Raise EngineError unless every page and slot is held by exactly one request."""
        running = [*self._prefilling, *self._decoding]
        if set(running) != set(self._block_tables):
            raise EngineError("block tables and running requests differ")
        if len({request.slot for request in running}) != len(running):
            raise EngineError("a slot is held by two requests")
        held = [page for table in self._block_tables.values() for page in table]
        if len(set(held)) != len(held) or len(held) + self._pages.num_free != self._pages.num_pages:
            raise EngineError("a cache page is lost or held twice")

    def _admit(self) -> None:
        while self._waiting and self._num_pages(self._waiting[0]) <= self._pages.num_free:
            slot = self._slots.acquire()
            if slot is None:
                return
            request = self._waiting.popleft()
            request.slot = slot
            self._block_tables[request] = tuple(self._pages.allocate(self._num_pages(request)))
            self._prefilling.append(request)

    def _num_pages(self, request: Request) -> int:
        longest = min(len(request.prompt_ids) + request.params.max_tokens, self._max_model_len)
        return -(-(longest + self._num_draft_tokens + 1) // self._page_size)

    def _take_tokens(self, request: Request, tokens: Sequence[int], is_prefill: bool) -> None:
        metrics = request.metrics
        if is_prefill:
            metrics.time_to_first_token_s = time.perf_counter() - request.arrival_s
            metrics.accepted_histogram = [0] * (self._num_draft_tokens + 1)
        before = len(request.output_ids)
        for token in tokens:
            request.output_ids.append(token)
            reason = self._ending(request, token)
            if reason is not None:
                self._finish(request, reason)
                break
        if not is_prefill:
            metrics.num_iterations += 1
            metrics.accepted_histogram[len(request.output_ids) - before - 1] += 1

    def _ending(self, request: Request, token: int) -> FinishReason | None:
        """Why the request ends with its last token, if it does. The text may know of a stop string only at its end."""
        is_end, is_full = token in request.end_ids, request.num_tokens >= request.max_len
        if request.text is not None:
            request.stop_reason = request.text.add(token)
            if request.stop_reason is None and (is_end or is_full):
                request.stop_reason = request.text.end()
        if request.stop_reason is not None:
            return "stop"
        if is_end:
            is_own = token in self._eos_token_ids and not request.params.ignore_eos
            request.stop_reason = None if is_own else token
        return "stop" if is_end else "length" if is_full else None

    def _finish(self, request: Request, reason: FinishReason, error: SpecguideError | None = None) -> None:
        request.finish_reason = reason
        request.error = error
        if request.text is not None:
            request.text.end()
        request.metrics.output_tokens = len(request.output_ids)
        request.metrics.total_s = time.perf_counter() - request.arrival_s
        if request.slot >= 0:
            (self._prefilling if request in self._prefilling else self._decoding).remove(request)
            self._pages.free(self._block_tables.pop(request))
            self._slots.release(request.slot)
