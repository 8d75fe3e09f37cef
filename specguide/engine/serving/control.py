"""Owns what the supervisor of a service and its processes tell each other, over pipes of
`multiprocessing`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from specguide.config import EngineConfig
from specguide.config.resolved import ResolvedConfig
from specguide.engine.stats import EngineStats
from specguide.errors import EngineError, InvalidParams


@dataclass(frozen=True)
class CorePlan:
    """What a core is started with.

    address:     of its socket, for ZeroMQ
    max_waiting: most requests under way beyond the engine's slots; each sample counts
    max_wait_s:  longest that a request is probably to wait for a slot, seconds
    may_restart: another core follows one whose engine fails, so that it ends with its engine
    log_requests: write a line of JSON on standard error for each request that has ended
    """

    config: EngineConfig
    address: str
    max_waiting: int
    max_wait_s: float
    may_restart: bool
    log_requests: bool = False


@dataclass(frozen=True)
class CoreFacts:
    """Sent by a core that is ready: what fronts must know of its engine.

    cache_size: of the KV cache, in words
    """

    config: ResolvedConfig
    vocab_size: int
    max_model_len: int
    max_unfinished: int
    cache_size: str
    stats: EngineStats


@dataclass(frozen=True)
class StartFailure:
    """Sent by a core whose engine cannot be built. is_user_error: a user can mend it"""

    message: str
    is_user_error: bool

    def error(self) -> InvalidParams | EngineError:
        """What to raise for it."""
        return (InvalidParams if self.is_user_error else EngineError)(self.message)


@dataclass(frozen=True)
class FrontReady:
    """Sent by a front that listens."""


@dataclass(frozen=True)
class CoreUp:
    """Sent to a front: the core takes requests at this address of ZeroMQ."""

    address: str


@dataclass(frozen=True)
class CoreDown:
    """Sent to a front: the core is gone, and all requests with it. cause: in words"""

    cause: str


@dataclass(frozen=True)
class FrontLeft:
    """Sent to the core: a front is gone; nobody reads what its requests generate."""

    front: str


@dataclass(frozen=True)
class Stop:
    """Sent to a front: take no more requests. drain_s: what those under way are given, seconds

    To the core: all fronts are gone.
    """

    drain_s: float


def order_of(control: Connection) -> Any:
    """What the supervisor says next; where it is gone, this process ends."""
    try:
        return control.recv()
    except EOFError:
        os._exit(1)
