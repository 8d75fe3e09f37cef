"""Owns the messages between the supervisor of a service and its processes, over `multiprocessing`
pipes."""

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
    """The settings with which a core is started.

    address:     ZeroMQ address of its socket
    max_waiting: most requests under way beyond the engine's slots; each sample counts
    max_wait_s:  a request is refused if it would probably wait longer for a slot, seconds
    may_restart: if its engine fails, the core ends, and the supervisor starts another one
    log_requests: write a line of JSON to standard error for each request that has ended
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

    cache_size: size of the KV cache, in words
    """

    config: ResolvedConfig
    vocab_size: int
    max_model_len: int
    max_unfinished: int
    cache_size: str
    stats: EngineStats


@dataclass(frozen=True)
class StartFailure:
    """Sent by a core whose engine cannot be built. is_user_error: the user can fix the cause"""

    message: str
    is_user_error: bool

    def error(self) -> InvalidParams | EngineError:
        """The error to raise for it."""
        return (InvalidParams if self.is_user_error else EngineError)(self.message)


@dataclass(frozen=True)
class FrontReady:
    """Sent by a front once it listens."""


@dataclass(frozen=True)
class CoreUp:
    """Sent to a front: the core takes requests at this ZeroMQ address."""

    address: str


@dataclass(frozen=True)
class CoreDown:
    """Sent to a front: the core is gone, and all its requests with it. cause: why, in words"""

    cause: str


@dataclass(frozen=True)
class FrontLeft:
    """Sent to the core: a front is gone, and nobody reads the outputs of its requests."""

    front: str


@dataclass(frozen=True)
class Stop:
    """Sent to a front: take no more requests. drain_s: seconds for the requests under way to end

    Sent to the core: all fronts are gone.
    """

    drain_s: float


def order_of(control: Connection) -> Any:
    """The supervisor's next message. Ends this process where the supervisor is gone."""
    try:
        return control.recv()
    except EOFError:
        os._exit(1)
