"""Owns Observer, which gets every iteration after the scheduler has taken its tokens, the Committed
that it gets, and two short observers."""

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

    requests, advances: one for each row of the batch, in order
    """

    batch: Batch
    requests: Sequence[Request]
    output: StepOutput
    times: IterationTimes
    advances: Sequence[Advance]

    def rows(self) -> Iterator[tuple[int, Request, Advance]]:
        """For each row of the batch: its index, request and advance."""
        pairs = zip(self.requests, self.advances, strict=True)
        return ((row, request, advance) for row, (request, advance) in enumerate(pairs))


class Observer(Protocol):
    """Gets every iteration, in order, on the engine's thread."""

    def take(self, committed: Committed) -> None:
        """Take one more iteration."""


class DraftCounts:
    """Counts for each request who proposed its drafts, and how many of them were accepted."""

    def take(self, committed: Committed) -> None:
        """Add the drafts of one iteration to the metrics of its requests."""
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
    """Gives the scheduler the time of each iteration, from the end of the iteration before; or,
    where the engine was idle, from its own launch."""

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
    for origin in set(origins):  # for a few drafts, this is faster than a Counter
        name = DRAFT_ORIGINS[origin]
        counts[name] = counts.get(name, 0) + origins.count(origin)
