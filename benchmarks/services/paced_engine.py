"""Owns an engine without a model, for the front's benchmark: it gives each request tokens of one
text, at a pace, behind the core's own loop and wire."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from itertools import count
from multiprocessing.connection import Connection
from typing import Any, get_type_hints

from benchmarks.services.front_kinds import KINDS, NUM_RIVALS
from specguide.config import EngineConfig
from specguide.engine.serving.control import CorePlan
from specguide.engine.serving.core import Fronts, facts_of_core
from specguide.engine.serving.loop import EngineLoop
from specguide.engine.setup.facts import resolved
from specguide.engine.setup.target_folder import load_tokenizer
from specguide.engine.stats import EngineStats
from specguide.errors import EngineError
from specguide.host.processes import live_with
from specguide.params import SamplingParams
from specguide.request import Request, RequestSpec
from specguide.request_records import Logprob

PACE = "SPECGUIDE_BENCHMARK_PACE"
"""Environment variable: milliseconds of an iteration, tokens that it gives each request, and the
kind of all requests."""
_SCORES = {token: Logprob(-0.01 * token, token) for token in range(256, 256 + NUM_RIVALS)}


class PacedEngine:
    """As much of Engine as the core uses. Of one request, tokens come at each tick of a clock."""

    failure: EngineError | None = None
    on_ready: Callable[[], None]

    def __init__(self, config: EngineConfig, pace: str) -> None:
        self.config = resolved(config)
        self.tokenizer = load_tokenizer(self.config)
        self.vocab_size = len(self.tokenizer)
        self.max_model_len = self.config.max_model_len
        iteration_ms, num_tokens, kind = pace.split(",")
        self._kind = KINDS[kind]
        self._iteration_s = 1e-3 * float(iteration_ms)
        self._num_tokens = int(num_tokens)
        self._next_s = 0.0
        self._numbers = count()
        self._requests: dict[Request, list[int]] = {}
        self.cache_size = "no KV cache"

    def add(self, prompt_ids: Sequence[int], params: SamplingParams, **given: Any) -> Request:
        del given["client"]
        request = Request(RequestSpec(next(self._numbers), prompt_ids, params, **given))
        self._requests[request] = self._kind.output_ids(
            self.tokenizer, params.seed or 0, params.max_tokens
        )
        return request

    def cancel(self, request: Request) -> None:
        if self._requests.pop(request, None) is not None:
            request.finish_reason = "abort"

    def wait_s(self, *_: object) -> float:
        """Every request starts at the next tick."""
        return 0.0

    def idle_s(self) -> float:
        return max(0.0, self._next_s - time.perf_counter()) if self._requests else math.inf

    def step(self) -> None:
        """Gives each request the tokens of one tick."""
        self._next_s = max(self._next_s, time.perf_counter() - 1.0) + self._iteration_s
        for request, ids in list(self._requests.items()):
            num_before = len(request.output_ids)
            new = ids[num_before : num_before + self._num_tokens]
            request.output_ids += new
            if request.params.logprobs is not None:
                request.logprobs += [{**_SCORES, token: Logprob(-0.5, 1)} for token in new]
            if len(request.output_ids) == len(ids):
                request.finish_reason = "length"
                del self._requests[request]

    def stats(self) -> EngineStats:
        """Statistics that say nothing."""
        hints = get_type_hints(EngineStats).items()
        values: dict[str, Any] = {name: {} if "apping" in str(of) else 0 for name, of in hints}
        return EngineStats(**values)

    def close(self) -> None:
        self._requests.clear()


def run_paced_core(plan: CorePlan, control: Connection, parent_pid: int) -> None:
    """Runs a core as engine.core.run_core does, without a model."""
    live_with(parent_pid, "specguide-core")
    engine: Any = PacedEngine(plan.config, os.environ[PACE])
    fronts = Fronts(engine, plan, control)
    fronts.loop = EngineLoop(engine, fronts, fronts)
    control.send(facts_of_core(engine, fronts.max_unfinished))
    fronts.loop.run()
    fronts.end(0)
