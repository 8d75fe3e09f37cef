"""Prompts beside decoding in a closed loop: neither first tokens nor next ones are late, whatever
the number of clients."""

from __future__ import annotations

import pytest

from benchmarks.simulations.closed_loop import ClosedLoop, Loop


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
