"""Prompts that are spread over iterations so that these come to be alike."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small_scheduler import make, request

from specguide.piggyback import PiggybackLimits
from specguide.scheduler.prompt_rate import PromptRate

SPREAD = PiggybackLimits(16, tuple(range(8, 2049, 8)), tile=16, max_slots=16)


def drain(num_waiting: int, per_iteration: int, num_iterations: int) -> list[tuple[float, int]]:
    """What waits and what is computed, iteration by iteration, where so many come in for each and
    64 requests decode."""
    rate, told, waiting = PromptRate(), [], float(num_waiting)
    for _ in range(num_iterations):
        waiting += per_iteration
        num_tokens = min(round(rate.tokens(waiting, 64)), int(waiting))
        rate.take(num_tokens)
        waiting -= num_tokens
        told.append((waiting, num_tokens))
    return told


@pytest.mark.parametrize("per_iteration", [40, 250, 500])
def test_a_steady_load_comes_to_be_computed_as_it_comes_in(per_iteration):
    told = drain(0, per_iteration, 1000)
    assert all(abs(num - per_iteration) <= 2 for _, num in told[-50:])
    assert all(waiting < 2 * per_iteration for waiting, _ in told[-50:])
    assert max(waiting for waiting, _ in told) < 64 * per_iteration


def test_more_than_ever_came_in_does_not_pile_up():
    load = 300
    told = drain(0, load, 400)
    assert max(waiting for waiting, _ in told) < 60 * load and told[-1][0] < 2 * load


@pytest.mark.parametrize("num_waiting", [2_000, 32_000, 500_000])
def test_what_came_at_once_is_gone_soon(num_waiting):
    told = drain(num_waiting, 0, 1000)
    num_needed = sum(waiting > 0 for waiting, _ in told)
    assert num_needed < 2 * num_waiting**0.5  # a crowd of 16 times as many takes 4 times as long
    assert max(num for _, num in told) < 6 * num_waiting**0.5


def planned(limits: PiggybackLimits, num_prompts: int, prompt_len: int = 201) -> list[int]:
    """Prompt tokens beside a request that decodes, in the iterations behind their arrival."""
    scheduler = make(16_000, 16, 2_000, piggyback=limits)
    scheduler.add(first := request(0, max_tokens=1_000))
    told = []
    while len(told) < 20:
        batch = scheduler.schedule().batch
        gives = [chunk.next_id is None for chunk in batch.chunks] or [True] * len(batch.slots)
        scheduler.commit(batch, [[5] if each else [] for each in gives], {})
        scheduler.check_integrity()
        if len(first.output_ids) == 1:
            for number in range(num_prompts):
                scheduler.add(request(1 + number, prompt_len=prompt_len, max_tokens=1))
        elif first.output_ids:
            told.append(batch.piggyback.num_tokens)
    return told


@pytest.mark.parametrize("limits", [PiggybackLimits(16), replace(SPREAD, nodes_each=2)])
def test_where_no_row_costs_little_prompts_are_computed_as_fast_as_they_may_be(limits):
    assert planned(limits, 8)[:2] == [1600, 0]


def test_the_more_waits_the_more_is_computed():
    one, some, many = (planned(SPREAD, *each) for each in ((1, 21), (1, 201), (12, 1_601)))
    assert one[0] == 20 and one[1] == 0
    assert some[0] + some[1] >= 200 and some[0] % 8 == 0
    assert max(some) < max(many)


def test_what_rides_fills_a_size_as_long_as_enough_waits():
    told = planned(SPREAD, 12)
    last = max(number for number, num in enumerate(told) if num)
    assert sum(told) == 12 * 200 and all(num % 8 == 0 for num in told[:last])
