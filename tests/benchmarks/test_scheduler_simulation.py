"""The scheduler under the traffic of its benchmark, in small: nobody starves, shares are kept."""

from __future__ import annotations

import pytest

from benchmarks.simulations.scheduler import SchedulerSimulation
from benchmarks.simulations.scheduler_traffic import max_min_shares


def test_shares_are_max_min():
    demands = {"little": 10.0, "some": 40.0, "much": 400.0, "all": 4000.0}
    assert max_min_shares(demands, 250) == {"little": 10, "some": 40, "much": 100, "all": 100}
    assert max_min_shares(demands, 9999) == demands


@pytest.fixture(scope="module")
def simulation():
    simulation = SchedulerSimulation(seed=3)
    simulation.run(4000)
    return simulation


def test_nobody_starves_and_nothing_is_lost(simulation):
    figures = simulation.figures()
    assert figures["starved"] == 0 and figures["longest_wait_of_bound"] < 0.6
    simulation.scheduler.check_integrity()


def test_who_asks_without_end_gets_as_much_as_others_who_do(simulation):
    of_share = simulation.of_share()
    assert {"batch 0", "batch 1", "long 0", "long 1"} <= of_share.keys()
    assert min(of_share.values()) > 0.85 and max(of_share.values()) < 1.15


def test_who_asks_for_little_hardly_waits(simulation):
    waits = simulation.figures()["wait_s_p50_p99_max"]
    greedy_p50 = min(waits["batch"][0], waits["long"][0])
    assert all(waits[kind][1] < greedy_p50 / 4 for kind in ("chat", "steady", "once"))
