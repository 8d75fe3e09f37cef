"""The prompt tokens of an iteration: within the bound, whatever the noise, and never none."""

from __future__ import annotations

import math
import subprocess
import sys
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specguide.scheduler.step_budget import FEWEST_TOKENS, StepBudget

MAX_TOKENS = 4096


def device_s(num_nodes: int, num_tokens: int) -> float:
    """Seconds of an 8B model's step on a large GPU: memory-bound at first, then by the row."""
    return max(4.2e-3, 1.5e-3 + 22e-6 * (num_nodes + num_tokens))


def run(budget: StepBudget, num_nodes: int, random: Random, num_iterations: int = 200) -> list[int]:
    """Tokens of each of some iterations while prompts wait, whose times scatter by 5 %, and one in
    20 takes ten times as long."""
    counts = []
    for _ in range(num_iterations):
        counts.append(num_tokens := budget.most_tokens(num_nodes))
        seconds = device_s(num_nodes, num_tokens) * random.uniform(0.95, 1.05)
        budget.take(num_nodes, num_tokens, seconds * random.choice([10] + [1] * 19))
    return counts


def test_without_a_bound_the_limit_is_the_budget():
    budget = StepBudget(MAX_TOKENS)
    budget.take(8, 100, 5.0)
    assert budget.most_tokens(0) == budget.most_tokens(512) == MAX_TOKENS


def test_where_nobody_decodes_no_gap_is_bounded():
    assert StepBudget(MAX_TOKENS, 0.02).most_tokens(0) == MAX_TOKENS


@pytest.mark.parametrize("num_nodes", [1, 64, 256])
def test_it_comes_close_to_the_bound_and_stays_within_it(num_nodes):
    counts = run(StepBudget(MAX_TOKENS, 0.025), num_nodes, Random(7))
    times = [device_s(num_nodes, num_tokens) for num_tokens in counts]
    assert max(times) < 0.0275 and min(times[-100:]) > 0.018


def test_it_follows_what_changes():
    budget, random = StepBudget(MAX_TOKENS, 0.025), Random(5)
    few = run(budget, 512, random)[-1]
    many = run(budget, 8, random)[-1]
    assert many > few + 300 and abs(run(budget, 512, random)[-1] - few) < 150


def test_many_iterations_without_prompts_do_not_make_it_forget():
    budget, random = StepBudget(MAX_TOKENS, 0.025), Random(5)
    before = run(budget, 64, random)[-1]
    for _ in range(1000):
        budget.take(64, 0, device_s(64, 0) * random.uniform(0.95, 1.05))
    assert abs(budget.most_tokens(64) - before) < 150


def test_prompts_go_on_where_decoding_alone_takes_too_long():
    counts = run(StepBudget(MAX_TOKENS, 0.003), 256, Random(3))
    assert set(counts) == {FEWEST_TOKENS}


def test_the_smallest_limit_is_kept():
    assert set(run(StepBudget(16, 0.025), 4, Random(3))) == {16}


def test_iterations_faster_than_their_nodes_say_leave_it_monotone():
    budget = StepBudget(MAX_TOKENS, 0.025)
    for num_tokens, seconds in ((5000, 1e-3), (0, 0.0), (5000, 1.0), (0, 0.0)):
        for _ in range(32):
            budget.take(1000, num_tokens, seconds)
    counts = [budget.most_tokens(num_nodes) for num_nodes in (1, 500, 3000)]
    assert counts == sorted(counts, reverse=True)


times = st.tuples(st.integers(0, 2000), st.integers(0, 5000), st.floats(0, 10))


@given(st.lists(times, max_size=150), st.floats(1e-4, 1), st.integers(1, 8192))
def test_whatever_it_is_told_it_is_monotone_and_within_its_limits(told, max_step_s, max_tokens):
    budget = StepBudget(max_tokens, max_step_s)
    for num_nodes, num_tokens, seconds in told:
        budget.take(num_nodes, num_tokens, seconds)
    counts = [budget.most_tokens(num_nodes) for num_nodes in range(1, 3000, 37)]
    assert counts == sorted(counts, reverse=True)
    assert all(min(FEWEST_TOKENS, max_tokens) <= count <= max_tokens for count in counts)
    assert not math.isnan(budget._base_s)


def test_no_iteration_waits_for_an_import():
    """Numpy's own median loads `numpy.ma`, which took the 27th iteration of a process 50 ms."""
    code = """
import sys
from specguide.scheduler.step_budget import StepBudget
budget = StepBudget(4096, 0.02)
loaded = set(sys.modules)
for _ in range(100):
    budget.take(4, budget.most_tokens(4), 0.005)
print(*set(sys.modules) - loaded, end="")
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, timeout=120)
    assert run.stdout == b""
