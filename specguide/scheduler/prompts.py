"""Owns which chunks of prompts are computed next, in a prefill iteration or in a mixed one."""

from __future__ import annotations

from collections.abc import Sequence

from specguide.batch import Chunk, Piggyback
from specguide.scheduler.limits import SchedulerLimits
from specguide.scheduler.pace import Pace
from specguide.scheduler.placement import Placement, by_schedule_key
from specguide.scheduler.prompt_rate import PromptRate
from specguide.scheduler.sequence import SequenceState


class PromptPlanner:
    """Plans chunks of the prompts of requests that have slots, in the order of their schedule keys.

    Mixed iterations keep the bound on an iteration's time. Where the decode rows do not fill a tile
    of the matrix products, prompts are also spread over iterations (`PromptRate`): the first prompt
    rows take hardly any time there, and gaps between tokens become short and even. Where they fill
    one, a prompt token takes about the same time in any iteration, and a slot that waits for its
    prompt decodes nothing; so prompts are computed as fast as the bound allows. `python -m
    benchmarks.scheduler` shows the effect.
    """

    def __init__(self, limits: SchedulerLimits, placement: Placement, pace: Pace) -> None:
        self._limits, self._placement, self._pace = limits, placement, pace
        self._rate = PromptRate()

    def may_piggyback(self, sequence: SequenceState) -> bool:
        """Whether its prompt can be computed in mixed iterations."""
        return self._limits.piggyback.max_chunks > 0 and not sequence.num_unscored

    def prefill(self, num_planned: int) -> tuple[list[SequenceState], list[Chunk]]:
        """The requests of a prefill iteration, and the chunk of each. A request whose last prompt
        token is in its chunk decodes next.

        num_planned: number of iterations before this one
        """
        placement = self._placement
        budget = self._most_tokens(len(placement.decoding))
        planned, chunks = [], []
        are_decoding = not all(sequence.is_at_its_end for sequence in placement.decoding)
        for sequence in sorted(placement.prefilling, key=by_schedule_key):
            if are_decoding and self.may_piggyback(sequence):
                continue
            is_early = sequence.not_before > num_planned and bool(placement.decoding)
            may_run = sequence.slot >= 0 and sequence.error is None and budget > 0 and not is_early
            chunk = self._next_chunk(sequence, budget) if may_run else None
            if chunk is not None:
                planned.append(sequence)
                chunks.append(chunk)
                budget -= len(chunk.token_ids)
        placement.start_decoding(
            sequence
            for sequence, chunk in zip(planned, chunks, strict=True)
            if chunk.next_id is None
        )
        return planned, chunks

    def take_starting(self) -> set[SequenceState]:
        """Requests that decode from now on: the keys of all their tokens but the last are planned,
        or they have only one token."""
        starting = {
            sequence
            for sequence in self._placement.prefilling
            if sequence.num_left == 1
            if self.may_piggyback(sequence) and sequence.error is None
        }
        for sequence in starting:
            self._open(sequence)
        self._placement.start_decoding(starting)
        return starting

    def piggyback(self, decoding: Sequence[SequenceState]) -> Piggyback:
        """Chunks of prompts for a mixed iteration, in order and without the prompts' last tokens,
        as far as there are free pages for them.

        decoding: the requests that decode in it, at least one
        """
        placement = self._placement
        highest_slot = max(sequence.slot for sequence in decoding)
        limits = self._limits.piggyback.beside(highest_slot)
        waiting = [
            one
            for one in sorted(placement.prefilling, key=by_schedule_key)
            if self.may_piggyback(one) and one.error is None
        ]
        num_waiting = sum(one.num_left - 1 for one in waiting)
        most = self._most_tokens(len(decoding))
        if not self._limits.piggyback.fills_tile(highest_slot):
            num_to_come = num_waiting + placement.num_tokens_to_admit()
            most = min(most, limits.nearest(self._rate.tokens(num_to_come, len(decoding))))
        most = limits.most_tokens(most)
        budget = min(most, limits.filled(num_waiting))
        planned, chunks = [], []
        for sequence in waiting[: limits.max_chunks]:
            chunk = self._piggyback_chunk(sequence, budget) if budget > 0 else None
            if chunk is not None:
                planned.append(sequence)
                chunks.append(chunk)
                budget -= len(chunk.token_ids)
        piggyback = Piggyback(
            tuple(sequence.slot for sequence in planned),
            tuple(placement.tables[sequence] for sequence in planned),
            tuple(chunks),
            tuple(sequence.adapter for sequence in planned),
        )
        self._rate.take(piggyback.num_tokens)
        return piggyback

    def _most_tokens(self, num_decoding: int) -> int:
        return self._pace.budget.most_tokens(num_decoding * self._limits.num_nodes)

    def _next_chunk(self, sequence: SequenceState, budget: int) -> Chunk | None:
        """The next chunk, of at most `budget` tokens, with pages for it; None where there are too
        few pages."""
        self._open(sequence)
        end = min(sequence.num_tokens, sequence.num_computed + budget)
        end = self._placement.tables.chunk_end(sequence, end)
        num_ahead = self._placement.num_ahead if end == sequence.num_tokens else 0
        if not self._placement.make_room(sequence, end + num_ahead):
            return None
        return self._chunk(sequence, end)

    def _piggyback_chunk(self, sequence: SequenceState, budget: int) -> Chunk | None:
        """The next chunk, of at most `budget` tokens; None where nothing is left to compute, or no
        page is free."""
        self._open(sequence)
        end = min(sequence.num_tokens - 1, sequence.num_computed + budget)
        end = self._placement.tables.chunk_end(sequence, end)
        most = self._placement.most_positions(sequence)
        if end == sequence.num_computed or not self._placement.tables.grow(sequence, end, most):
            return None
        return self._chunk(sequence, end)

    def _open(self, sequence: SequenceState) -> None:
        """Give it the cached pages of its first tokens, unless it has pages already."""
        if sequence not in self._placement.tables:
            sequence.find_keys(self._placement.tables.open(sequence))

    def _chunk(self, sequence: SequenceState, end: int) -> Chunk:
        """Its next tokens up to, but without, position `end`; its pages have room for them."""
        self._placement.tables.publish_chunk(sequence, end)
        return sequence.next_chunk(end, self._placement.images)
