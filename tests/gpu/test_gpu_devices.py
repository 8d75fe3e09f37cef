"""Engines on another GPU than the current one, in threads that never heard of it."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from arrangements import make_arranged
from async_engines import collect
from random_requests import cases
from tiny_engine import K, make

from specguide import SpecConfig
from specguide.config import EngineConfig
from specguide.engine import AsyncEngine, Engine
from specguide.kernels.shared_memory import mapped

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices"),
]

FP32 = dict(dtype="float32", max_batch_size=6)


def told(outputs) -> list[tuple[int, ...]]:
    assert {out.error for out in outputs} == {None}
    return [out.token_ids for out in outputs]


def test_memory_that_one_device_pinned_is_mapped_for_another():
    for owner, other in ((0, 1), (1, 0)):
        with torch.cuda.device(owner):
            torch.zeros(1, device="cuda")
            pinned = torch.zeros(8, dtype=torch.int32, pin_memory=True)
        there = mapped(pinned, torch.device("cuda", other))
        assert there.device == torch.device("cuda", other)
        there.fill_(7)
        torch.cuda.synchronize(other)
        assert pinned.tolist() == [7] * 8


@pytest.mark.parametrize(
    "options",
    [
        dict(),
        dict(trace=True),
        dict(lag=0),
        dict(baseline="two models"),
        dict(enforce_eager=True),
    ],
    ids=str,
)
def test_the_second_device_from_another_thread(folders, tmp_path, options):
    prompts, params = cases(7, 20, temperature=0.8, top_k=20)
    llms = [
        make_arranged(folders, device=device, **FP32, **options) for device in ("cuda:0", "cuda:1")
    ]
    first = told(llms[0].generate(prompts, params))
    with ThreadPoolExecutor(1) as thread:
        for _ in range(2):  # as it is, then captured
            assert told(thread.submit(llms[1].generate, prompts, params).result()) == first
            assert told(llms[0].generate(prompts, params)) == first
        thread.submit(llms[1].warm_up).result()
        assert thread.submit(torch.cuda.current_device).result() == 0
    assert torch.cuda.current_device() == 0
    assert told(llms[1].generate(prompts, params)) == first
    for llm in llms:
        if options.get("trace"):
            llm.write_trace(tmp_path / "trace.json")
        llm._engine.check_integrity()
        llm.close()


def test_nothing_is_left_on_the_first_device(folders):
    before = torch.cuda.memory_allocated(0)
    llm = make(folders, device="cuda:1", **FP32)
    told(llm.generate(*cases(2, 12)))
    assert torch.cuda.memory_allocated(0) <= before and torch.cuda.memory_allocated(1) > 0
    llm.close()


def test_the_asyncio_engine_on_the_second_device(folders):
    prompts, params = cases(21, 20, temperature=0.7)
    blocking = make(folders, device="cuda:0", **FP32)
    expected = told(blocking.generate(prompts, params))
    blocking.close()
    target, head = folders

    async def main():
        config = EngineConfig(
            model=target, spec=SpecConfig(model=head, num_draft_tokens=K), device="cuda:1", **FP32
        )
        async with AsyncEngine(Engine(config)) as engine:
            streams = map(engine.generate, prompts, params)
            return await asyncio.gather(*map(collect, streams))

    assert [tokens for ((_, tokens, _),) in asyncio.run(main())] == expected


def test_the_current_device_of_the_thread_that_makes_it_is_meant(folders):
    prompts, params = cases(3, 6)
    with torch.cuda.device(1):
        llm = make(folders, **FP32)
    assert llm._engine._executor.grammar.forward.torch.device == torch.device("cuda", 1)
    told(llm.generate(prompts, params))
    llm.close()
