"""What an engine counts agrees with what its requests say of themselves."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest
from random_requests import cases
from tiny_engine import K, make

from specguide import Guide, SamplingParams, SpecConfig
from specguide.config import EngineConfig
from specguide.engine import AsyncEngine, Engine
from specguide.engine.stats import Histogram


def test_histogram():
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        histogram.observe(value)
    copy = histogram.copy()
    histogram.observe(0.0)
    assert (copy.counts, copy.total, sum(histogram.counts)) == ([2, 1, 1], 12.0, 5)
    assert copy.cumulative() == [(1.0, 2), (2.0, 3), (float("inf"), 4)]


def test_counts_are_those_of_the_requests(folders):
    llm, (prompts, params) = make(folders, max_batch_size=4), cases(31, 20)
    engine = llm._engine
    requests = [
        engine.add(engine.prompt_ids(prompt), param)
        for prompt, param in zip(prompts, params, strict=True)
    ]
    engine.cancel(requests[0])
    for _ in range(3):
        engine.step()
    now = engine.stats()
    assert 0 < now.num_running <= 4 and now.batch_occupancy == now.num_running / 4
    assert 0 < now.num_pages_used <= now.num_pages
    assert now.num_waiting + now.num_running == engine.num_unfinished
    while engine.num_unfinished:
        engine.step()
    stats = engine.stats()
    assert stats.num_waiting == stats.num_running == stats.num_pages_used == 0
    reasons = [request.finish_reason for request in requests]
    assert (
        stats.finished == {reason: reasons.count(reason) for reason in set(reasons)}
        and stats.finished["abort"] == 1
    )
    for name, chosen in (
        ("all", requests),
        ("guided", [one for one in requests if one.params.guide]),
    ):
        assert stats.accepted[name] == [
            sum(one.metrics.accepted_histogram[a] for one in chosen if one.output_ids)
            for a in range(K + 1)
        ]
    proposed = [one.metrics.drafts_proposed.get("model", 0) for one in requests]
    assert 0 < sum(proposed) == stats.draft_tokens
    ttft = stats.latency["ttft"]
    assert sum(ttft.counts) == sum(bool(one.output_ids) for one in requests)
    assert ttft.total == pytest.approx(sum(one.metrics.time_to_first_token_s for one in requests))
    e2e = stats.latency["e2e"]
    assert sum(e2e.counts) == sum(stats.finished.values()) == len(requests)
    assert e2e.total == pytest.approx(sum(one.metrics.total_s for one in requests))
    num_guided = sum(one.params.guide is not None for one in requests[1:])
    compiled, cached = (sum(stats.latency[name].counts) for name in ("compile", "compile_cached"))
    assert num_guided <= compiled + cached <= num_guided + 1  # the cancelled one may be counted
    json.dumps(stats.as_dict())
    llm.close()


def test_each_request_is_one_line_of_the_log(folders, caplog):
    target, head = folders

    async def main():
        config = EngineConfig(model=target, spec=SpecConfig(model=head, num_draft_tokens=K))
        async with AsyncEngine(Engine(config)) as engine:
            params = SamplingParams(n=2, max_tokens=9, ignore_eos=True)
            _ = [delta async for delta in engine.generate("abc", params)]
            assert engine.stats().finished == {"length": 2}
            guided = SamplingParams(guide=Guide(choice=["a"]))
            _ = [delta async for delta in engine.generate("abc", guided)]
            return engine.stats().guides

    with caplog.at_level(logging.INFO, logger="specguide.requests"):
        guides = asyncio.run(main())
    *records, guided = [
        json.loads(record.message)
        for record in caplog.records
        if record.name == "specguide.requests"
    ]
    assert [record["sample"] for record in records] == [0, 1]
    for record in records:
        assert (
            record["output_tokens"] == 9
            and record["finish_reason"] == "length"
            and record["error"] is None
        )
        assert record["tpot_s"] == pytest.approx(
            (record["total_s"] - record["time_to_first_token_s"]) / 8
        )
        assert 0 < record["queue_s"] < record["time_to_first_token_s"] < record["total_s"]
        assert record["guide"] is record["guide_hash"] is None
    assert guided["guide"] == "choice" and [guided["guide_hash"]] == list(guides)
