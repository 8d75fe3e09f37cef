"""Prompts beside decoding in a closed loop: neither first tokens nor next ones are late, whatever
the number of clients."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from benchmarks.simulations.closed_loop import ClosedLoop, Loop, device_s
from specguide.batch import Batch


@pytest.mark.parametrize(("num_clients", "ttft_ms", "gap_ms"), [(64, 250, 25), (128, 500, 35)])
def test_gaps_and_first_tokens_are_bounded(num_clients, ttft_ms, gap_ms):
    figures = ClosedLoop(Loop(num_clients, 0.025, 3.5, rounds=4)).run()
    assert figures["gap_p99_ms"] < gap_ms and figures["ttft_p50_ms"] < ttft_ms
    assert figures["tokens_per_s"] > 4_800


def test_drafts_that_count_save_iterations():
    plain = ClosedLoop(Loop(8, 0.025, 3.5, rounds=4)).run()
    loop = ClosedLoop(Loop(8, 0.025, 3.5, rounds=4, num_drafts=3, accepted=1.67))
    figures = loop.run()
    assert figures["tokens_per_s"] > 1.4 * plain["tokens_per_s"]
    assert all(len(times) == 128 for times in loop.arrivals_s.values())


@pytest.mark.parametrize(
    ("num_decoding", "measured_ms"),
    [
        (60, {0: 5.6, 192: 8.5, 320: 11.1, 448: 13.6, 576: 16.6, 704: 18.9, 960: 24.7}),
        (124, {0: 7.4, 511: 17.4, 768: 23.3, 1022: 28.1}),
    ],
)
def test_iterations_take_what_they_take_in_loops_on_a_gpu(num_decoding, measured_ms):
    for num_prompt_tokens, ms in measured_ms.items():
        batch = Mock(
            Batch,
            is_prefill=False,
            slots=tuple(range(num_decoding)),
            num_prompt_tokens=num_prompt_tokens,
        )
        assert 1e3 * device_s(batch, Loop(1, 1.0).piggyback) == pytest.approx(ms, rel=0.02)
