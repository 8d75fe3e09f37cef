"""Owns who is told of an iteration once the scheduler has taken its tokens, and with what: the
Observer, what it is given, and two short observers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from specguide.batch import DRAFT_ORIGINS, Batch, StepOutput
from specguide.request import Request
from specguide.request_records import IterationTimes
from specguide.scheduler import Advance, Scheduler

if TYPE_CHECKING:
    from torch import Tensor

_MODEL = DRAFT_ORIGINS.index("model")


@dataclass(frozen=True, eq=False)
class Committed:
    """An iteration whose tokens the scheduler has taken.

    requests, advances: of the batch, in its order
    """

    batch: Batch
    requests: Sequence[Request]
    output: StepOutput
    times: IterationTimes
    advances: Sequence[Advance]

    def rows(self) -> Iterator[tuple[int, Request, Advance]]:
        """Place in the batch, request and what it was given."""
        pairs = zip(self.requests, self.advances, strict=True)
        return ((row, request, advance) for row, (request, advance) in enumerate(pairs))


class Observer(Protocol):
    """Is told of every iteration, in order, by the engine's thread."""

    def take(self, committed: Committed) -> None:
        """Take one more iteration."""


class DraftCounts:
    """Counts for each request who proposed its drafts, and how many of them were taken."""

    def take(self, committed: Committed) -> None:
        """Add to the metrics of the batch's requests."""
        output = committed.output
        if committed.batch.is_prefill:
            return
        num_tokens, all_origins = output.num_tokens.tolist(), _origins(output).tolist()
        in_trees = None if output.num_drafts is None else output.num_drafts.tolist()
        for row, request, advance in committed.rows():
            if advance.tokens and not advance.is_first:
                origins = [origin for origin in all_origins[row] if origin]
                num_taken = min(len(advance.tokens), num_tokens[row] - 1)
                proposed = origins if in_trees is None else [_MODEL] * in_trees[row]
                _add(request.metrics.drafts_proposed, proposed)
                _add(request.metrics.drafts_accepted, origins[:num_taken])


class StepTimes:
    """Tells the scheduler what each iteration took: the time since the one before had ended or,
    where the engine had nothing to do, since its own launch."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._last_end_s = 0.0

    def take(self, committed: Committed) -> None:
        """Take the time of one more iteration."""
        times = committed.times
        seconds = times.end_s - max(times.begin_s, self._last_end_s)
        self._last_end_s = times.end_s
        self._scheduler.take_time(committed.batch, committed.advances, seconds)


def _origins(output: StepOutput) -> Tensor:
    """Who proposed each draft that was verified, [B, K] as in StepOutput."""
    return (output.drafts >= 0).int() * _MODEL if output.origins is None else output.origins


def _add(counts: dict[str, int], origins: Sequence[int]) -> None:
    for origin in set(origins):  # of few this is quicker than a Counter
        name = DRAFT_ORIGINS[origin]
        counts[name] = counts.get(name, 0) + origins.count(origin)
