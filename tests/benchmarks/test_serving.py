"""The requests of benchmarks.serving: lists that are longer than what they are given tokens for."""

from __future__ import annotations

import pytest

from benchmarks.serving import Run, load
from benchmarks.soaks.jobs import lists
from benchmarks.soaks.watched_engine import WatchedEngine
from specguide.config import EngineConfig, SpecConfig


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_requests_run_though_their_lists_are_cut(share: float) -> None:
    engine = WatchedEngine(EngineConfig(spec=SpecConfig(), max_batch_size=2))
    try:
        pool = lists(engine.tokenizer, 1, seed=31)
        run = Run(engine, load(pool[:2], 2, share, max_tokens=16), concurrency=2)
    finally:
        engine.close()
    assert [fault for fault in run.faults if "memory grew" not in fault] == []
    assert run.iterations > 0 and run.num_tokens == 32
