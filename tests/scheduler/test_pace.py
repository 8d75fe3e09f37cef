"""What the scheduler learns from times: how much of prompts to compute, and who waits how long."""

from __future__ import annotations

import pytest

from specguide.cache import PageAllocator
from specguide.params import SamplingParams
from specguide.request import Request, RequestSpec
from specguide.scheduler import Scheduler, SchedulerLimits

PROMPT_S, OUTPUT_S = 1e-4, 1e-3
"""Seconds that a token of a prompt, and one of an output, takes."""


def make(**limits) -> Scheduler:
    kinds = dict(max_batch_size=2, max_model_len=5000, max_prefill_tokens=2048, page_size=16)
    counts = dict(num_draft_tokens=0, num_draft_positions=0)
    return Scheduler(
        SchedulerLimits(**(kinds | counts | limits)), PageAllocator(2000), [0], lambda slot: True
    )


class Clients:
    """Clients that add requests to a scheduler, in order."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler, self.num_requests = scheduler, 0

    def add(self, client: str = "", prompt_len: int = 100, max_tokens: int = 10) -> Request:
        number = self.num_requests
        self.num_requests += 1
        params = SamplingParams(max_tokens=max_tokens, ignore_eos=True)
        spec = RequestSpec(
            number, [number + 9] * prompt_len, params, arrival_s=number, client=client
        )
        self.scheduler.add(one := Request(spec))
        return one


def step(scheduler: Scheduler) -> tuple[int, float]:
    """Prompt tokens and seconds of an iteration."""
    batch = scheduler.schedule().batch
    is_last = [chunk.next_id is None for chunk in batch.chunks] or [True] * len(batch.slots)
    commit = scheduler.commit(batch, [[7]] * len(batch.slots) if all(is_last) else [[]], {})
    num_output = sum(len(advance.tokens) for advance in commit.advances)
    seconds = PROMPT_S * batch.num_prompt_tokens + OUTPUT_S * num_output
    scheduler.take_time(batch, commit.advances, seconds)
    return batch.num_prompt_tokens, seconds


def test_chunks_of_prompts_fit_into_the_longest_step():
    scheduler = make(max_step_s=0.05, max_batch_size=3)
    clients = Clients(scheduler)
    clients.add(max_tokens=4000)
    steps = [step(scheduler)]
    for _ in range(6):
        clients.add(prompt_len=3000, max_tokens=1)
        steps += [step(scheduler) for _ in range(40)]
    counts = [num_tokens for num_tokens, _ in steps[1:] if num_tokens]
    assert counts[0] == 64 and max(counts) > 350
    assert max(seconds for _, seconds in steps[1:]) <= 0.05


def test_without_a_bound_chunks_are_as_large_as_they_may_be():
    scheduler = make()
    clients = Clients(scheduler)
    clients.add(max_tokens=4000)
    step(scheduler)
    clients.add(prompt_len=3000)
    assert max(step(scheduler)[0] for _ in range(3)) == 2048


def test_who_comes_now_is_told_how_long_he_would_wait():
    scheduler = make()
    clients = Clients(scheduler)
    assert scheduler.wait_s("a", 0) == 0
    requests = [clients.add("a") for _ in range(40)]
    while scheduler.num_unfinished > 20:
        step(scheduler)
    told_s, waited_s = scheduler.wait_s("a", 0), 0.0
    last = clients.add("a")
    while not last.metrics.queue_s:
        waited_s += step(scheduler)[1]
    assert told_s == pytest.approx(waited_s, rel=0.25) and all(requests)


def test_a_client_waits_for_his_own_turn_and_not_for_a_flood():
    scheduler = make()
    clients = Clients(scheduler)
    for _ in range(100):
        clients.add("flood")
    for _ in range(200):
        step(scheduler)
    assert 0 < scheduler.wait_s("new", 0) < 0.1 * scheduler.wait_s("flood", 0)
    assert scheduler.wait_s("flood", 5) == scheduler.wait_s("flood", 10**400) == 0
