"""An LLM with the parts of a baseline instead of the engine's own."""

from __future__ import annotations

from typing import Any

from benchmarks.baselines import BASELINES
from specguide import LLM
from specguide.config import EngineConfig
from specguide.engine import Engine
from specguide.engine.executors import LocalExecutor
from specguide.engine.setup.facts import resolved


def baseline_llm(model: Any, baseline: str | None = None, **config: Any) -> LLM:
    """baseline: of BASELINES; None: the engine's own parts. The others: EngineConfig's."""
    engine_config = EngineConfig(model, **config)
    parts = BASELINES[baseline] if baseline else None
    return LLM.around(Engine(engine_config, LocalExecutor.load(resolved(engine_config), parts)))
