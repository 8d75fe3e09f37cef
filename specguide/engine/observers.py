"""Owns what follows from an iteration once the scheduler has taken its tokens: who is told of it,
and with what."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from specguide.batch import Batch, StepOutput
from specguide.request import Request
from specguide.request_records import IterationTimes
from specguide.scheduler import Advance


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
