"""Owns the scheduler's answers: the plan of an iteration and its outcome, each with the slots that
were released.

The engine must stop all work for the request that had a released slot. The slot is used again once
`slot_is_idle` says so.
"""

from __future__ import annotations

from typing import NamedTuple

from specguide.batch import Batch
from specguide.request import Request


class Schedule(NamedTuple):
    """The plan of the next iteration.

    batch:    None where nothing can run
    requests: the requests of the batch, in order
    released: slots that were released since the last answer
    """

    batch: Batch | None
    requests: tuple[Request, ...]
    released: tuple[int, ...]


class Advance(NamedTuple):
    """The outcome of an iteration for one request of its batch.

    tokens:   the tokens that were added to its output
    is_held:  its rows were late, and the same drafts are verified again
    is_first: the iteration had no drafts to verify: the request begins, or it has been held ever
              since it began
    """

    tokens: tuple[int, ...] = ()
    is_held: bool = False
    is_first: bool = False


NO_ADVANCE = Advance()
"""The advance of a request to which an iteration gave nothing."""


class Commit(NamedTuple):
    """The outcome of an iteration: an advance for each request of the batch, in order, the requests
    that finished, and the slots that were released."""

    advances: tuple[Advance, ...]
    finished: tuple[Request, ...]
    released: tuple[int, ...]
