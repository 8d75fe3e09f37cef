"""Owns what the scheduler answers: plans and outcomes, each with the slots that were released.

A released slot is used again once `slot_is_idle` says so; whoever gets the answer must see to it
that nothing more is done for the request that had it.
"""

from __future__ import annotations

from typing import NamedTuple

from specguide.batch import Batch
from specguide.request import Request


class Schedule(NamedTuple):
    """The next iteration; no batch where nothing can run."""

    batch: Batch | None
    released: tuple[int, ...]


class Commit(NamedTuple):
    """Requests that finished."""

    finished: tuple[Request, ...]
    released: tuple[int, ...]
