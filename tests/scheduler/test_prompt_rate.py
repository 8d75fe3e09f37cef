"""Prompts that are spread over iterations so that these come to be alike."""

from __future__ import annotations

from dataclasses import replace

import pytest
from small_scheduler import make, request

from specguide.piggyback import PiggybackLimits
from specguide.scheduler.prompt_rate import PromptRate

SIZES = tuple(range(8, 2049, 8))
SPREAD = PiggybackLimits(16, SIZES, fill_rows=64, max_slots=16, nodes_each=4)


def drain(num_waiting: int, per_iteration: int, num_iterations: int) -> list[tuple[float, int]]:
    """What waits and what is computed, iteration by iteration, where so many come in for each."""
    rate, told, waiting = PromptRate(), [], float(num_waiting)
    for _ in range(num_iterations):
        waiting += per_iteration
        num_tokens = min(round(rate.tokens(waiting)), int(waiting))
        rate.take(num_tokens)
        waiting -= num_tokens
        told.append((waiting, num_tokens))
    return told


@pytest.mark.parametrize("per_iteration", [40, 250, 500])
def test_a_steady_load_comes_to_be_computed_as_it_comes_in(per_iteration):
    told = drain(0, per_iteration, 800)
    assert all(abs(num - per_iteration) <= 2 for _, num in told[-50:])
    assert all(waiting < 2 * per_iteration for waiting, _ in told[-50:])
    assert max(waiting for waiting, _ in told) < 64 * per_iteration


def test_what_came_at_once_is_gone_within_an_answer_and_leaves_no_swing():
    told = drain(8_000, 0, 400)
    assert told[128][0] < 800 and told[300][0] < 64
    assert max(num for _, num in told) < 200


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


def test_prompts_take_what_costs_little_and_no_more():
    assert planned(SPREAD, 1)[:5] == [32, 32, 32, 32, 32]  # 64 rows, of which 8 slots have 32


def test_without_such_rows_prompts_are_computed_as_fast_as_they_may_be():
    assert planned(replace(SPREAD, fill_rows=0), 1)[:2] == [200, 0]


def test_the_more_waits_the_more_is_computed():
    assert max(planned(SPREAD, 12)) < max(planned(SPREAD, 12, prompt_len=1_601)) < 400
