"""Owns the plan of the next iteration: which requests run, and the Batch that says what they
compute."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from specguide.batch import NO_PIGGYBACK, Batch, Chunk, Piggyback, Start
from specguide.scheduler.limits import SchedulerLimits
from specguide.scheduler.pace import Pace
from specguide.scheduler.placement import Placement, by_schedule_key
from specguide.scheduler.prompts import PromptPlanner
from specguide.scheduler.sequence import SequenceState


class Planner:
    """Plans one iteration at a time for the requests that have slots.

    num_planned: number of iterations so far
    """

    def __init__(self, limits: SchedulerLimits, placement: Placement, pace: Pace) -> None:
        self._limits, self._placement = limits, placement
        self._prompts = PromptPlanner(limits, placement, pace)
        self._prefilled_last = False
        self.num_planned = 0

    def next_batch(self, *, mixes: bool) -> Batch | None:
        """The next batch; None where nothing can run. Requests may lose their slots for it.

        mixes: whether a decode iteration may carry chunks of prompts
        """
        decode = partial(self._decode, mixes=mixes)
        # planning a decode iteration may preempt all requests that decode
        plans = (decode, self._prefill)
        for plan in plans if self._decodes_next() else (self._prefill, *plans):
            batch = plan()
            if batch is not None:
                self._prefilled_last = batch.is_prefill
                self.num_planned += 1
                return batch
        return None

    def _decodes_next(self) -> bool:
        """Whether to decode next: after each prefill, and where no prompt needs an iteration of its
        own."""
        placement = self._placement
        return self._prefilled_last or (
            bool(placement.decoding) and all(map(self._prompts.may_piggyback, placement.prefilling))
        )

    def _prefill(self) -> Batch | None:
        planned, chunks = self._prompts.prefill(self.num_planned)
        return self._batch(planned, chunks=chunks)

    def _decode(self, *, mixes: bool) -> Batch | None:
        """An iteration with all requests that decode, and with chunks of prompts."""
        planned = []
        has_grown = []
        starting = self._prompts.take_starting()
        tables, make_room = self._placement.tables, self._placement.make_room
        most_tokens, num_behind = self._limits.most_tokens, self._limits.num_behind
        for sequence in sorted(self._placement.decoding, key=by_schedule_key):
            # it has just lost its slot to a request before it, or it is about to end
            if sequence.slot < 0 or sequence.error is not None:
                continue
            # if it starts now, only chunks of its prompt are under way, which give no tokens
            if sequence.is_at_its_end and sequence not in starting:
                continue
            num_to_come = sequence.num_in_flight * most_tokens + num_behind
            num_positions = sequence.num_tokens + num_to_come
            table = tables[sequence]
            if tables.has_room(sequence, num_positions) or make_room(sequence, num_positions):
                planned.append(sequence)
                has_grown.append(tables[sequence] is not table)
        if not planned:
            return None
        return self._batch(
            planned,
            has_grown=has_grown,
            starts=[one.start(row) for row, one in enumerate(planned) if one in starting],
            piggyback=self._prompts.piggyback(planned) if mixes else NO_PIGGYBACK,
        )

    def _batch(
        self,
        sequences: Sequence[SequenceState],
        *,
        chunks: Sequence[Chunk] = (),
        has_grown: Sequence[bool] = (),
        starts: Sequence[Start] = (),
        piggyback: Piggyback = NO_PIGGYBACK,
    ) -> Batch | None:
        if not sequences:
            return None
        for sequence in sequences:
            sequence.num_in_flight += 1
        are_last = [chunk.next_id is None for chunk in chunks]
        restored, saved = self._placement.tables.states.take()
        return Batch(
            request_ids=tuple([sequence.request_id for sequence in sequences]),
            slots=tuple([sequence.slot for sequence in sequences]),
            block_tables=tuple(map(self._placement.tables.__getitem__, sequences)),
            chunks=tuple(chunks),
            entries=tuple(
                sequence.entry(chooses=is_last)
                for sequence, is_last in zip(sequences, are_last, strict=False)
            ),
            has_grown=tuple(has_grown),
            epochs=tuple([sequence.epoch for sequence in sequences]),
            processed=tuple(
                row
                for row, sequence in enumerate(sequences)
                if sequence.has_processors and (not chunks or are_last[row])
            ),
            starts=tuple(starts),
            piggyback=piggyback,
            restored=restored,
            saved=saved,
            images=self._placement.images.take(),
        )
