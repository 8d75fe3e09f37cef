"""Owns all requests from `add` to their end: it plans iterations and takes their results."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from specguide.batch import Adjustment, Batch
from specguide.drafts.layout import DraftLayout
from specguide.errors import InvalidParams, PromptTooLong, SpecguideError
from specguide.request import FinishReason, Request
from specguide.scheduler.answers import NO_ADVANCE, Advance, Commit, Schedule
from specguide.scheduler.limits import SchedulerLimits
from specguide.scheduler.pace import Pace
from specguide.scheduler.placement import Placement
from specguide.scheduler.planning import Planner
from specguide.scheduler.sequence import SequenceState, finish

if TYPE_CHECKING:
    from specguide.cache import PageAllocator


class Scheduler:
    """Admits requests by slots and pages, and plans one iteration at a time.

    Requests run in the order of their schedule keys (see `sequence`). Prompts are computed in
    chunks, of at most `max_prefill_tokens` an iteration in all. Chunks ride in decode iterations;
    where that is impossible, they have iterations of their own, each followed by a decode
    iteration, so that no prompt stalls decoding for longer. Pages are handed out as sequences grow.
    When they run out, the running request with the greatest schedule key is preempted and waits
    again. Later it finds those of its pages that nobody took, and its grammar goes on where it was.

    `schedule` may be called again before the last plan's results are committed. A request that has
    ended in these results then runs once more for nothing, and `commit` ignores it.

    eos_token_ids: the model's end tokens
    slot_is_idle:  tells whether a released slot may be used again
    """

    def __init__(
        self,
        limits: SchedulerLimits,
        pages: PageAllocator,
        eos_token_ids: Sequence[int],
        slot_is_idle: Callable[[int], bool],
    ) -> None:
        self._limits, self._pages = limits, pages
        self._eos_token_ids = frozenset(eos_token_ids)
        self._sequences: dict[int, SequenceState] = {}
        self._placement = Placement(limits, pages, slot_is_idle)
        self.pace = Pace(limits)
        self._planner = Planner(limits, self._placement, self.pace)

    @property
    def num_unfinished(self) -> int:
        """Number of requests that wait or run."""
        return len(self._placement.waiting) + self.num_running

    @property
    def num_running(self) -> int:
        """Number of requests that hold a slot."""
        return self._placement.num_running

    def take_time(self, batch: Batch, advances: Sequence[Advance], seconds: float) -> None:
        """Take the time of an iteration that was committed."""
        num_output = sum(len(advance.tokens) for advance in advances)
        is_busy = len(self._placement.waiting) > 0
        self.pace.take(batch, num_output, seconds, is_busy=is_busy)

    def add(
        self,
        request: Request,
        adjustment: Adjustment | None = None,
        layout: DraftLayout | None = None,
    ) -> None:
        """Queue a request. Raises PromptTooLong or InvalidParams where it could never run.

        adjustment: how its logits are adjusted; None: not at all
        layout:     the drafts that it takes; None: all
        """
        sequence = self._sequence(request, adjustment, layout)
        self._check_room(sequence)
        self._placement.enter(sequence)
        self._sequences[request.request_id] = sequence

    def answer(self, request: Request, tokens: Sequence[int]) -> None:
        """End a request that was never added: these tokens are its whole output."""
        request.metrics.time_to_first_token_s = time.perf_counter() - request.arrival_s
        _, reason = self._sequence(request).take(tokens)
        assert reason is not None, "an output ends with an end token"
        finish(request, reason)

    def wait_s(self, client: str, priority: int) -> float:
        """Estimated seconds until a request that came now would run. May be called from any
        thread."""
        return self.pace.wait_s(self._placement.waiting, client, priority)

    def schedule(self, *, mixes: bool = True) -> Schedule:
        """Plan the next iteration. Requests may lose their slots for it.

        mixes: whether a decode iteration may carry chunks of prompts
        """
        self._placement.admit()
        batch = self._planner.next_batch(mixes=mixes)
        request_ids = () if batch is None else batch.request_ids
        requests = tuple(self._sequences[request_id].request for request_id in request_ids)
        return Schedule(batch, requests, self._placement.take_released())

    def commit(
        self, batch: Batch, tokens: Sequence[Sequence[int]], errors: Mapping[int, SpecguideError]
    ) -> Commit:
        """Take an iteration's tokens for each request of the batch (none: it was held), and errors
        by slot.

        A request with an error is not planned again. Unless its tokens end it, it ends with the
        error: at once where its tokens end with -1, which says that no token can follow, else once
        no iteration with it is under way. Finished requests release their pages and slots.
        """
        advances = []
        finished = []
        first_rows = batch.first_rows
        for row, request_id in enumerate(batch.request_ids):
            sequence = self._sequences.get(request_id)
            if sequence is None:
                advances.append(NO_ADVANCE)
                continue
            if batch.is_prefill:
                sequence.take_scores(batch.chunks[row])
            if sequence.epoch != batch.epochs[row]:
                advances.append(NO_ADVANCE)
                continue
            error = errors.get(batch.slots[row])
            is_first = sequence.is_held_first or row in first_rows
            advances.append(self._advance(sequence, batch, row, tokens[row], error, is_first))
            if sequence.request.finish_reason is not None:
                finished.append(sequence.request)
        return Commit(tuple(advances), tuple(finished), self._placement.take_released())

    def cancel(self, request: Request, error: SpecguideError | None = None) -> tuple[int, ...]:
        """End one request with `error`, or as aborted; it may wait, run, or not be added yet. Its
        pages are freed. Returns the released slots: its own, if it had one.

        Iterations that are under way still compute it, for nothing.
        """
        sequence = self._sequences.get(request.request_id)
        if sequence is None:
            finish(request, "error" if error else "abort", error)
        else:
            self._finish(sequence, "error" if error else "abort", error)
        return self._placement.take_released()

    def abort(self, error: SpecguideError | None = None) -> Commit:
        """End every request that waits or runs: with `error`, or as aborted."""
        sequences = [*self._placement.waiting, *self._placement.running]
        for sequence in sequences:
            self._finish(sequence, "error" if error else "abort", error)
        self._pages.forget()
        requests = tuple(sequence.request for sequence in sequences)
        return Commit((), requests, self._placement.take_released())

    def prompt_keys(self, prompt_ids: Sequence[int], adapter: int) -> list[bytes]:
        """See BlockTables.prompt_keys."""
        return self._placement.tables.prompt_keys(prompt_ids, adapter)

    def check_integrity(self) -> None:
        """Raise EngineError unless every page and slot is held by those that should hold it."""
        self._placement.check_integrity()

    def _sequence(
        self,
        request: Request,
        adjustment: Adjustment | None = None,
        layout: DraftLayout | None = None,
    ) -> SequenceState:
        params = request.params
        prompt_len = len(request.prompt_ids)
        own_end_ids = frozenset() if params.ignore_eos else self._eos_token_ids
        return SequenceState(
            request,
            min(prompt_len + params.max_tokens, self._limits.max_model_len),
            own_end_ids,
            own_end_ids.union(params.stop_token_ids if params.guide is None else ()),
            adjustment,
            layout,
        )

    def _check_room(self, sequence: SequenceState) -> None:
        prompt_len = len(sequence.request.prompt_ids)
        most = self._limits.max_model_len
        if prompt_len >= most:
            raise PromptTooLong(
                f"the prompt has {prompt_len} tokens and the context holds {most}, output "
                "included; shorten the prompt, or raise max_model_len where it is below the "
                "model's own context",
                param="prompt",
            )
        self._check_images(sequence)
        num_pages = self._placement.tables.num_pages(self._placement.most_positions(sequence))
        if num_pages > self._pages.num_pages:
            raise InvalidParams(
                f"the prompt and max_tokens together need {num_pages} pages of the KV cache, which "
                f"has {self._pages.num_pages}; lower max_tokens, or give the KV cache more memory",
                param="max_tokens",
            )

    def _check_images(self, sequence: SequenceState) -> None:
        num_rows, most = self._placement.images.num_of(sequence.images), self._limits.image_rows
        if num_rows > most:
            raise InvalidParams(
                f"the images of the prompt are {num_rows} vectors and the engine has memory for "
                f"{most}; send fewer or smaller images, or raise max_image_tokens",
                param="prompt",
            )

    def _advance(
        self,
        sequence: SequenceState,
        batch: Batch,
        row: int,
        tokens: Sequence[int],
        error: SpecguideError | None,
        is_first: bool,
    ) -> Advance:
        sequence.num_in_flight -= 1
        sequence.error = sequence.error or error
        is_stuck = -1 in tokens
        advance = NO_ADVANCE
        if len(tokens) > is_stuck:
            new_tokens = tokens[:-1] if is_stuck else tokens
            advance = Advance(self._take_tokens(sequence, new_tokens, is_first), is_first=is_first)
        elif sequence.error is None and (not batch.is_prefill or batch.chunks[row].next_id is None):
            advance = Advance(is_held=True, is_first=is_first)
            sequence.is_held_first = is_first
            self._hold(sequence, batch.is_prefill)
        if sequence.error is None or sequence.request.finish_reason is not None:
            return advance
        if is_stuck or not sequence.num_in_flight:
            self._finish(sequence, "error", sequence.error)
        return advance

    def _hold(self, sequence: SequenceState, is_prefill: bool) -> None:
        sequence.request.metrics.num_held += 1
        if is_prefill:
            sequence.hold_prefill(self._planner.num_planned)
            self._placement.prefill_again(sequence)

    def _take_tokens(
        self, sequence: SequenceState, tokens: Sequence[int], is_first: bool
    ) -> tuple[int, ...]:
        """Add tokens to a request's output, up to the one that ends it. Returns the added tokens.

        is_first: no draft was verified
        """
        request = sequence.request
        metrics = request.metrics
        sequence.num_late = 0
        sequence.is_held_first = False
        if not request.output_ids:
            metrics.time_to_first_token_s = time.perf_counter() - request.arrival_s
            metrics.accepted_histogram = [0] * self._limits.most_tokens
        num_taken, reason = sequence.take(tokens)
        if not is_first:
            metrics.num_iterations += 1
            metrics.accepted_histogram[num_taken - 1] += 1
        if reason is None:
            self._placement.tables.publish(sequence, sequence.num_tokens - 1)
        else:
            self._finish(sequence, reason)
        return tuple(tokens if num_taken == len(tokens) else tokens[:num_taken])

    def _finish(
        self, sequence: SequenceState, reason: FinishReason, error: SpecguideError | None = None
    ) -> None:
        del self._sequences[sequence.request_id]
        finish(sequence.request, reason, error)
        self._placement.end(sequence)
