"""Owns what the scheduler answers: plans and outcomes, each with the slots that were released.

A released slot is used again once `slot_is_idle` says so; whoever gets the answer must see to it
that nothing more is done for the request that had it.
"""

from __future__ import annotations

from typing import NamedTuple

from specguide.batch import Batch
from specguide.request import Request


class Schedule(NamedTuple):
    """The next iteration; no batch where nothing can run. requests: those of the batch, in order"""

    batch: Batch | None
    requests: tuple[Request, ...]
    released: tuple[int, ...]


class Advance(NamedTuple):
    """What an iteration came to for one request of its batch.

    tokens:   added to its output
    is_held:  its rows were late, and the same is verified again
    is_first: no draft is verified: the request begins, or has been held since it did
    """

    tokens: tuple[int, ...] = ()
    is_held: bool = False
    is_first: bool = False


NO_ADVANCE = Advance()
"""The advance of a request to which an iteration gave nothing."""


class Commit(NamedTuple):
    """What an iteration came to: of each request of the batch, in order, and which finished."""

    advances: tuple[Advance, ...]
    finished: tuple[Request, ...]
    released: tuple[int, ...]
