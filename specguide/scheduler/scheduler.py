"""Owns requests from `add` to their end: what runs next, where, and what has become of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from specguide.batch import Batch, Chunk
from specguide.errors import EngineError, InvalidParams, PromptTooLong, SpecguideError
from specguide.request import FinishReason, Request
from specguide.scheduler.answers import Commit, Schedule
from specguide.scheduler.block_tables import BlockTables
from specguide.scheduler.slots import SlotPool
from specguide.scheduler.waiting import WaitingQueue, entitlement

if TYPE_CHECKING:
    from specguide.cache import PageAllocator


_LONGEST_PAUSE = 32
"""Iterations after which a prefill whose first row was late is tried again at the latest."""


class Scheduler:
    """Admits requests by slots and pages, and plans one iteration at a time.

    Requests run in the order of their entitlement (see `waiting`). Prompts are computed in chunks,
    of `max_prefill_tokens` an iteration in all, and between two such iterations the others decode,
    so nobody's prompt stalls them for longer. Pages are handed out as the sequences grow; when they
    run out, the request that is entitled last waits again. It finds those of its pages that nobody
    took, and its grammar goes on where it was.

    `schedule` may be called again before the last plan's results are committed: a request that had
    ended by then runs along for nothing, and `commit` passes over it.

    max_model_len:    longest prompt plus output, tokens
    num_draft_tokens: K, most that are accepted at once
    eos_token_ids:    the model's end tokens
    slot_is_idle:     says when a slot that was left may be used again
    num_draft_positions: room that every request needs for drafts beyond its last token; None: K
    """

    def __init__(
        self,
        *,
        max_batch_size: int,
        max_model_len: int,
        max_prefill_tokens: int,
        num_draft_tokens: int,
        page_size: int,
        pages: PageAllocator,
        eos_token_ids: Sequence[int],
        slot_is_idle: Callable[[int], bool],
        num_draft_positions: int | None = None,
    ) -> None:
        self._max_model_len, self._max_prefill_tokens = max_model_len, max_prefill_tokens
        self._num_draft_tokens = num_draft_tokens
        self._num_draft_positions = (
            num_draft_tokens if num_draft_positions is None else num_draft_positions
        )
        self._pages, self._tables = (
            pages,
            BlockTables(pages, page_size, num_ahead=min(num_draft_tokens, 1)),
        )
        self._eos_token_ids = frozenset(eos_token_ids)
        self._slots = SlotPool(max_batch_size, slot_is_idle)
        self._waiting = WaitingQueue()
        self._prefilling: list[Request] = []
        self._decoding: list[Request] = []
        self._released: list[int] = []  # since the last answer
        self._prefilled_last, self._num_planned = False, 0

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
                f"the prompt has {len(request.prompt_ids)} tokens and the context holds "
                f"{self._max_model_len}, "
                "output included; shorten the prompt or raise max_model_len",
                param="prompt",
            )
        request.max_len = min(
            len(request.prompt_ids) + request.params.max_tokens, self._max_model_len
        )
        num_pages = self._tables.num_pages(self._most_positions(request))
        if num_pages > self._pages.num_pages:
            raise InvalidParams(
                f"prompt and max_tokens need {num_pages} cache pages and there are "
                f"{self._pages.num_pages}; lower "
                "max_tokens or give the cache more pages",
                param="max_tokens",
            )
        request.end_ids = frozenset(request.params.stop_token_ids)
        if not request.params.ignore_eos:
            request.end_ids |= self._eos_token_ids
        self._waiting.push(request)

    def schedule(self) -> Schedule:
        """Plan the next iteration, for which requests may lose their slots."""
        return Schedule(self._plan(), self._take_released())

    def _plan(self) -> Batch | None:
        self._admit()
        plans = (
            self._plan_decode,
            self._plan_prefill,
        )  # planning to decode may leave nobody who does
        for plan in plans if self._prefilled_last else (self._plan_prefill, *plans):
            batch = plan()
            if batch is not None:
                self._prefilled_last = batch.is_prefill
                self._num_planned += 1
                return batch
        return None

    def commit(
        self, batch: Batch, tokens: Sequence[Sequence[int]], errors: Mapping[int, SpecguideError]
    ) -> Commit:
        """Take an iteration's tokens, per request of the batch (none: it was held), and errors by
        slot.

        A request with an error runs no more, and ends unless its tokens end it: at once behind a
        -1, which says that none can follow, else when no iteration with it is under way. The pages
        of those that finish are free, and their slots released.
        """
        finished: list[Request] = []
        for index, (request, slot, new_tokens) in enumerate(
            zip(batch.requests, batch.slots, tokens, strict=True)
        ):
            if request.finish_reason is not None or request.turn != batch.turns[index]:
                continue
            request.num_in_flight -= 1
            request.error = request.error or errors.get(slot)
            is_stuck = -1 in new_tokens
            if len(new_tokens) > is_stuck:
                self._take_tokens(
                    request, new_tokens[: len(new_tokens) - is_stuck], batch.is_prefill
                )
            elif request.error is None and (
                not batch.is_prefill or batch.chunks[index].next_id is None
            ):
                self._hold(request, batch.is_prefill)
            if request.error is not None and (is_stuck or not request.num_in_flight):
                self._finish(request, "error", request.error)
            if request.finish_reason is not None:
                finished.append(request)
        return Commit(tuple(finished), self._take_released())

    def cancel(self, request: Request, error: SpecguideError | None = None) -> tuple[int, ...]:
        """End one request, wherever it is, also before `add`: with `error`, or as aborted. Its
        pages are free; returns its slot, if it had one, as released.

        It runs along for nothing in iterations that are under way.
        """
        if request in self._waiting:
            self._waiting.remove(request)
        self._finish(request, "error" if error else "abort", error)
        return self._take_released()

    def abort(self, error: SpecguideError | None = None) -> Commit:
        """End every request that waits or runs: with `error`, or as aborted."""
        requests = [*self._waiting, *self._prefilling, *self._decoding]
        self._waiting.clear()
        for request in requests:
            self._finish(request, "error" if error else "abort", error)
        self._pages.forget()
        return Commit(tuple(requests), self._take_released())

    def check_integrity(self) -> None:
        """Raise EngineError unless every page and slot is held by those that should hold it."""
        running = [*self._prefilling, *self._decoding]
        if len({request.slot for request in running}) != len(running) or any(
            request.slot < 0 for request in running
        ):
            raise EngineError("a slot is held by two requests, or a running request has none")
        self._tables.check_integrity(running)

    def _admit(self) -> None:
        promised = sum(self._num_pages_to_come(request) for request in self._prefilling)
        while (request := self._waiting.first()) is not None:
            promised += self._num_pages_to_come(request)
            if promised > self._pages.num_free:
                return
            slot = self._slots.acquire()
            if slot is None:
                return
            request.slot = slot
            request.metrics.queue_s = (
                request.metrics.queue_s or time.perf_counter() - request.arrival_s
            )
            self._prefilling.append(self._waiting.pop())

    def _num_pages_to_come(self, request: Request) -> int:
        """Pages that it takes to the end of its prefill and first iteration, as far as it has none
        yet."""
        num_positions = min(request.num_tokens + self._num_ahead, self._most_positions(request))
        return self._tables.num_pages(num_positions) - self._tables.num_held(request)

    @property
    def _window(self) -> int:
        return self._num_draft_tokens + 1

    @property
    def _num_ahead(self) -> int:
        """Positions behind a prompt that it takes to the end of its first iteration."""
        return self._window + self._num_draft_positions + 1

    def _most_positions(self, request: Request) -> int:
        """Positions that it may ever come to. One that has ended runs along until the host
        knows."""
        return request.max_len + self._window + self._num_draft_positions

    def _plan_prefill(self) -> Batch | None:
        budget, planned, chunks = self._max_prefill_tokens, [], []
        for request in sorted(self._prefilling, key=entitlement):
            is_early = request.not_before > self._num_planned and bool(self._decoding)
            may_run = request.slot >= 0 and request.error is None and budget > 0 and not is_early
            chunk = self._next_chunk(request, budget) if may_run else None
            if chunk is not None:
                planned.append(request)
                chunks.append(chunk)
                budget -= len(chunk.token_ids)
        for request, chunk in zip(planned, chunks, strict=True):
            if chunk.next_id is None:
                self._prefilling.remove(request)
                self._decoding.append(request)
        return self._batch(planned, chunks=chunks)

    def _next_chunk(self, request: Request, budget: int) -> Chunk | None:
        """Of at most `budget` tokens, with pages for them; None where there are too few."""
        if request not in self._tables:
            request.num_computed = self._tables.open(request)
            if not request.output_ids:
                request.metrics.num_cached = request.num_computed
        start = request.num_computed
        end = min(request.num_tokens, start + budget)
        is_last = end == request.num_tokens
        if not self._make_room(request, end + (self._num_ahead if is_last else 0)):
            return None
        request.num_computed = end
        self._tables.publish(request, end)
        starts_walk = is_last and not request.has_walk
        request.has_walk = is_last
        tokens = request.tokens(start, end + 1)
        return Chunk(
            tokens[: end - start],
            start,
            None if is_last else tokens[-1],
            starts_walk,
            request.ids_to_score(start, end),
        )

    def _plan_decode(self) -> Batch | None:
        planned, has_grown = [], []
        for request in sorted(self._decoding, key=entitlement):
            if (
                request.slot < 0 or request.error is not None
            ):  # it has just lost it to one before, or is to end
                continue
            num_before = self._tables.num_held(request)
            num_positions = (
                request.num_tokens
                + (request.num_in_flight + 1) * self._window
                + self._num_draft_positions
            )
            if self._make_room(request, num_positions):
                planned.append(request)
                has_grown.append(self._tables.num_held(request) > num_before)
        return self._batch(planned, has_grown=has_grown)

    def _make_room(self, request: Request, num_positions: int) -> bool:
        """Pages for so many positions, if need be of requests that are less entitled; False where
        it waits again."""
        most = self._most_positions(request)
        while not self._tables.grow(request, min(num_positions, most), most):
            victim = max([*self._prefilling, *self._decoding], key=entitlement)
            self._preempt(victim)
            if victim is request:
                return False
        return True

    def _preempt(self, request: Request) -> None:
        self._leave(request)
        request.slot, request.num_computed, request.num_in_flight, request.has_walk = (
            -1,
            0,
            0,
            False,
        )
        request.num_late, request.not_before, request.error = 0, 0, None  # another matcher begins
        request.turn += 1
        request.metrics.num_preemptions += 1
        self._waiting.push(request)

    def _leave(self, request: Request) -> None:
        (self._prefilling if request in self._prefilling else self._decoding).remove(request)
        self._tables.close(request)
        self._slots.release(request.slot)
        self._released.append(request.slot)

    def _take_released(self) -> tuple[int, ...]:
        released, self._released = tuple(self._released), []
        return released

    def _batch(
        self,
        requests: Sequence[Request],
        *,
        chunks: Sequence[Chunk] = (),
        has_grown: Sequence[bool] = (),
    ) -> Batch | None:
        if not requests:
            return None
        for request in requests:
            request.num_in_flight += 1
        return Batch(
            tuple(requests),
            tuple(request.slot for request in requests),
            tuple(self._tables[request] for request in requests),
            chunks=tuple(chunks),
            has_grown=tuple(has_grown),
            turns=tuple(request.turn for request in requests),
        )

    def _hold(self, request: Request, is_prefill: bool) -> None:
        request.metrics.num_held += 1
        # its last token is computed again, for what follows; the later, the longer its row takes
        if is_prefill:
            request.num_computed = request.num_tokens - 1
            request.num_late += 1
            request.not_before = self._num_planned + min(2**request.num_late, _LONGEST_PAUSE)
            self._decoding.remove(request)
            self._prefilling.append(request)

    def _take_tokens(self, request: Request, tokens: Sequence[int], is_prefill: bool) -> None:
        metrics, request.num_late = request.metrics, 0
        if not request.output_ids:
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
        if request.finish_reason is None:
            self._tables.publish(request, request.num_tokens - 1)

    def _ending(self, request: Request, token: int) -> FinishReason | None:
        """Why the request ends with its last token, if it does. The text may know of a stop string
        only at its end."""
        is_end, is_full = token in request.end_ids, request.num_tokens >= request.max_len
        if request.text is not None:
            request.stop_reason = request.text.add(
                token, len(request.output_ids) >= request.params.min_tokens
            )
            if request.stop_reason is None and (is_end or is_full):
                request.stop_reason = request.text.end()
        if request.stop_reason is not None:
            return "stop"
        if is_end:
            is_own = token in self._eos_token_ids and not request.params.ignore_eos
            request.stop_reason = None if is_own else token
        return "stop" if is_end else "length" if is_full else None

    def _finish(
        self, request: Request, reason: FinishReason, error: SpecguideError | None = None
    ) -> None:
        request.finish_reason = reason
        request.error = error
        if request.text is not None:
            request.text.end()
        request.metrics.output_tokens = len(request.output_ids)
        request.metrics.total_s = time.perf_counter() - request.arrival_s
        if request.slot >= 0:
            self._leave(request)
