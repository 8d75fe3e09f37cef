"""Ranks that share memory give the tokens of one, too: sums are a part of the norms then."""

from __future__ import annotations

from dataclasses import replace

import pytest
import rank_threads
import thread_memory
from requests_of_every_kind import PATIENT, SPECS, outputs

from specguide import LLM
from specguide.config import EngineConfig
from specguide.engine import Engine
from specguide.parallel import places


@pytest.mark.parametrize("name", SPECS)
def test_two_ranks_give_the_tokens_of_one(name, monkeypatch):
    config = EngineConfig(spec=SPECS[name], guide=PATIENT, max_model_len=256, dtype="float32")
    expected = outputs(LLM.around(Engine(config)))
    asked: list[object] = []
    peers = places.MemoryPlaces.peers

    def noted(*args):
        asked.append(peers(*args))
        return asked[-1]

    monkeypatch.setattr(places.MemoryPlaces, "peers", noted)
    thread_memory.put_in(monkeypatch)
    assert outputs(rank_threads.llm(replace(config, tensor_parallel_size=2))) == expected
    assert sum(it is not None for it in asked) > 100
