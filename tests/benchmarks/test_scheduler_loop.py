"""Prompts beside decoding in a closed loop: neither first tokens nor next ones are late, whatever
the number of clients."""

from __future__ import annotations

import pytest

from benchmarks.scheduler_loop import ClosedLoop, Loop
from specguide.params import SamplingParams
from specguide.request import Request, RequestSpec
from specguide.scheduler.inflow import Inflow


@pytest.mark.parametrize(("num_clients", "ttft_ms", "gap_ms"), [(64, 250, 25), (128, 500, 35)])
def test_gaps_and_first_tokens_are_bounded(num_clients, ttft_ms, gap_ms):
    figures = ClosedLoop(Loop(num_clients, 0.035, rounds=6)).run()
    assert figures["gap_p99_ms"] < gap_ms and figures["ttft_p50_ms"] < ttft_ms
    assert figures["tokens_per_s"] > 6_000


def test_inflow_is_what_requests_bring_by_what_they_stay():
    inflow, params = Inflow(), SamplingParams()
    assert inflow.tokens(64) == 0
    for number in range(4000):  # 10 requests of 40 iterations each
        inflow.take(10)
        if number % 4 == 0:
            inflow.end(ended := Request(RequestSpec(number, [1] * 100, params)))
            assert not ended.output_ids
    assert inflow.tokens(10) == 0, "none of them has run"
    for number in range(4000):
        inflow.take(10)
        if number % 4 == 0:
            ended = Request(RequestSpec(number, [1] * 100, params))
            ended.output_ids.append(1)
            ended.metrics.num_cached = 20
            inflow.end(ended)
    assert inflow.tokens(10) == pytest.approx(20, abs=1)
    assert inflow.tokens(40) == pytest.approx(80, abs=1)
