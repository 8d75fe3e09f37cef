"""Owns an engine whose iterations are noted, and what they come to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from specguide import Guide
from specguide.config import EngineConfig
from specguide.engine import Engine
from specguide.engine.observers import Committed
from specguide.engine.requests.admission import Admitted
from specguide.guided.backends import CompiledGrammar
from specguide.guided.grammar_future import GrammarFuture
from specguide.request import Request


class Iteration(NamedTuple):
    """One as the host saw it.

    ms:       since the one before was committed
    prefills: requests whose prefill was committed or launched in that time, which is eager
    held:     slots that accepted nothing
    """

    ms: float
    prefills: int
    held: int


class WatchedEngine(Engine):
    """An engine that notes its iterations.

    wrap:        what becomes of the grammar of the request `wrapped`
    num_decodes: decode iterations whose results have come
    """

    def __init__(
        self, config: EngineConfig, wrap: Callable[[CompiledGrammar], Any] | None = None
    ) -> None:
        super().__init__(config)
        self.iterations: list[Iteration] = []
        self.wrapped: Request | None = None
        self.num_decodes = 0
        self._wrap = wrap
        self._last_s = 0.0
        self._cycle.observers.append(self)
        self._admit_as_it_is = self._admission.admit
        setattr(self._admission, "admit", self._admit)  # noqa: B010

    def compile(self, schemas: Iterable[str]) -> None:
        """Have their grammars in the cache."""
        for schema in schemas:
            self._admission.compiler.compile(Guide(json_schema=schema))

    def pause(self) -> None:
        """The time from here to the next commit is no iteration's."""
        self._last_s = 0.0

    def take(self, committed: Committed) -> None:
        """Takes an iteration, as an observer of the engine."""
        batch = committed.batch
        self.num_decodes += not batch.is_prefill
        now_s = perf_counter()
        near = [batch, *(other.batch for other in list(self._cycle.in_flight)[-1:])]
        if self._last_s:
            self.iterations.append(
                Iteration(
                    ms=1e3 * (now_s - self._last_s),
                    prefills=sum(len(each.slots) for each in near if each.is_prefill),
                    held=sum(advance.is_held for advance in committed.advances),
                )
            )
        self._last_s = now_s

    def _admit(self, request: Request, compiled: GrammarFuture | None) -> Admitted:
        admitted = self._admit_as_it_is(request, compiled)
        grammar = admitted.grammar
        if request is not self.wrapped or self._wrap is None or grammar is None:
            return admitted
        return admitted._replace(grammar=self._wrap(grammar))


def distribution(iterations: Sequence[Iteration]) -> dict[str, float]:
    """The distribution of times in milliseconds."""
    if not iterations:
        return {"num": 0}
    times = np.array([iteration.ms for iteration in iterations])
    median, p99, p999 = np.percentile(times, (50, 99, 99.9))
    return {
        "num": len(times),
        "median": round(float(median), 3),
        "p99": round(float(p99), 3),
        "p99.9": round(float(p999), 3),
        "max": round(float(times.max()), 3),
    }


def slowest(iterations: Sequence[Iteration], most: int = 40) -> list[dict[str, float]]:
    """The slowest 0.1 %, `most` at most: which, how long, and what happened."""
    order = sorted(range(len(iterations)), key=lambda index: -iterations[index].ms)
    return [
        {"index": index, **iterations[index]._asdict(), "ms": round(iterations[index].ms, 2)}
        for index in order[: min(most, -(-len(iterations) // 1000))]
    ]
