"""Ranks that share memory give the tokens of one, too: sums are a part of the norms then."""

from __future__ import annotations

from dataclasses import replace

import pytest
import rank_threads
import thread_memory
import torch
from requests_of_every_kind import PATIENT, SPECS, outputs

from specguide.config import EngineConfig
from specguide.guided.grammar_stream import shared_rows
from specguide.guided.grammar_stream.callbacks import HostMemory
from specguide.guided.grammar_stream.executor import Walked
from specguide.kernels.forward_stream import ForwardStream
from specguide.parallel import Ranks, places


@pytest.mark.parametrize("name", SPECS)
def test_two_ranks_give_the_tokens_of_one(one_process, name, monkeypatch):
    config = EngineConfig(spec=SPECS[name], guide=PATIENT, max_model_len=256, dtype="float32")
    asked: list[object] = []
    peers = places.MemoryPlaces.peers

    def noted(*args):
        asked.append(peers(*args))
        return asked[-1]

    monkeypatch.setattr(places.MemoryPlaces, "peers", noted)
    thread_memory.put_in(monkeypatch)
    assert outputs(rank_threads.llm(replace(config, tensor_parallel_size=2))) == one_process
    assert sum(it is not None for it in asked) > 100


@pytest.mark.parametrize("name", SPECS)
def test_ranks_that_wait_for_callbacks_by_themselves_give_the_tokens_of_one(
    one_process, name, monkeypatch
):
    """As on GPUs, ranks have copies of the rows in the host's memory, which they share."""
    guide = replace(PATIENT, callbacks="polling")
    config = EngineConfig(spec=SPECS[name], guide=guide, max_model_len=256, dtype="float32")
    waiting = []

    def shared(walked: Walked, forward: ForwardStream, ranks: Ranks) -> HostMemory | None:
        waiting.append(shared_rows.memory_of_ranks(walked, ranks))
        return waiting[-1]

    monkeypatch.setattr(shared_rows, "shared_memory", shared)
    thread_memory.put_in(monkeypatch)
    assert outputs(rank_threads.llm(replace(config, tensor_parallel_size=2))) == one_process
    assert len(waiting) == 2 and all(waiting)


class _OtherRanksSigns:
    """Rank 0's memory of two ranks, in which the other one has written `sign`."""

    def __init__(self, sign: int) -> None:
        self.sign, self.num_allocated = sign, 0

    def allocate(self, num_bytes: int) -> list[torch.Tensor]:
        self.num_allocated += 1
        if self.sign < 0:
            raise RuntimeError("there is none")
        memory = [torch.zeros(num_bytes, dtype=torch.uint8) for _ in range(2)]
        memory[0][1] = self.sign
        return memory

    def allocate_on_host(self, num_bytes: int) -> torch.Tensor:
        return self.allocate(num_bytes)[0]


@pytest.mark.parametrize("sign", [-1, 0, 2])
def test_memory_is_shared_where_ranks_see_what_the_others_write(sign):
    memory = _OtherRanksSigns(sign)
    own = places.MemoryPlaces(memory, 0, 2, torch.device("cpu"), 1.0, lambda value: value)
    for dtype in (torch.float32, torch.bfloat16):
        assert (own.peers(4, 8, dtype) is not None) == (sign == 2)
    assert memory.num_allocated == (2 if sign == 2 else 1)
    assert (own.host_memory(64) is not None) == (sign >= 0)
