"""Owns ServedEngine, the interface of an engine to a server, wherever the engine runs."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from specguide.config.resolved import ResolvedConfig
from specguide.engine.requests.prompts import Prompt
from specguide.engine.serving.stream import RequestStream
from specguide.engine.stats import EngineStats
from specguide.errors import EngineError, InvalidParams, QueueFull
from specguide.guided.backends import CompiledGrammar
from specguide.params import SamplingParams
from specguide.tokenizer import Tokenizer
from specguide.trace import Span

T = TypeVar("T")

_LONGEST_ANSWER_S = 10.0


@dataclass(frozen=True)
class EngineHealth:
    """Whether the engine takes requests. cause: why it does not; None where it does"""

    cause: EngineError | None = None

    @property
    def is_healthy(self) -> bool:
        """It takes requests."""
        return self.cause is None

    def check(self) -> None:
        """Raises an error of the cause's kind where no request is taken."""
        if self.cause is not None:
            raise type(self.cause)(f"the engine takes no requests: {self.cause}") from self.cause


@dataclass(frozen=True)
class CloseReport:
    """The result of closing an engine: how long it waited, seconds, and how many requests ended in
    that time or had to be aborted."""

    waited_s: float
    num_ended: int
    num_aborted: int

    def __str__(self) -> str:
        num_awaited = self.num_ended + self.num_aborted
        return (
            f"waited {self.waited_s:.2f} s for {num_awaited} requests: {self.num_ended} ended, "
            f"{self.num_aborted} were aborted"
        )


class ServedEngine(Protocol):
    """An engine that streams its outputs to asyncio code: an AsyncEngine, which documents all
    members, or a RemoteEngine."""

    config: ResolvedConfig
    tokenizer: Tokenizer
    vocab_size: int
    max_model_len: int
    max_unfinished: int

    @property
    def health(self) -> EngineHealth: ...

    @property
    def num_unfinished(self) -> int: ...

    def generate(
        self,
        prompt: Prompt,
        params: SamplingParams | None = None,
        *,
        priority: int = 0,
        client: str = "",
    ) -> RequestStream: ...

    def grammar_of(self, params: SamplingParams) -> CompiledGrammar | None: ...

    async def spans(self) -> list[Span]: ...

    async def refresh_stats(self) -> None: ...

    def stats(self) -> EngineStats | None: ...

    async def close(self, timeout_s: float = 30.0) -> CloseReport: ...


async def in_time(timeline: Awaitable[T]) -> T:
    """Wait for the timeline of an engine. Raises EngineError where it does not come in time."""
    try:
        return await asyncio.wait_for(timeline, _LONGEST_ANSWER_S)
    except TimeoutError:
        raise EngineError(
            f"the engine did not return its timeline within {_LONGEST_ANSWER_S:g} s"
        ) from None


def check_room(num_samples: int, num_unfinished: int, max_unfinished: int) -> None:
    """Raises InvalidParams for more samples than there is ever room for, and QueueFull where there
    is no room now."""
    if num_samples > max_unfinished:
        raise InvalidParams(
            f"n = {num_samples} asks for more samples than the {max_unfinished} requests that the "
            "engine has room for; lower n, or raise max_waiting",
            param="n",
        )
    if num_unfinished + num_samples > max_unfinished:
        raise QueueFull(
            f"{num_unfinished} requests are under way, and the engine has room for "
            f"{max_unfinished}; try again later, or raise max_waiting"
        )


def check_wait(wait_s: float, max_wait_s: float) -> None:
    """Raises QueueFull where a request would probably wait longer than `max_wait_s`."""
    if wait_s > max_wait_s:
        raise QueueFull(
            f"a new request would wait about {math.ceil(wait_s)} s, longer than max_wait_s "
            f"({max_wait_s:g} s); try again later, or raise max_wait_s",
            retry_after_s=wait_s - max_wait_s,
        )
