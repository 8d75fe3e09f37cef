"""Pages of the scheduler: requests that lose them, and prompts that share them."""

from __future__ import annotations

import pytest
from small_scheduler import K, commit, make, plan, request, run_alone

from specguide.cache import PageAllocator
from specguide.params import SamplingParams
from specguide.request import Request, RequestSpec


def test_the_greatest_schedule_key_loses_its_pages_and_goes_on_later():
    scheduler = make(num_pages=13, max_batch_size=2)
    first, second = request(0, prompt_len=8, max_tokens=24), request(1, prompt_len=8, max_tokens=24)
    scheduler.add(first)
    scheduler.add(second)
    num_under_way = 0
    while (batch := plan(scheduler)) is not None:
        num_under_way += 1
        assert num_under_way < 100
        if batch.is_prefill and 1 in batch.request_ids and second.output_ids:
            chunk = batch.chunks[batch.request_ids.index(1)]
            assert (
                chunk.starts_walk
                and [*second.prompt_ids, *second.output_ids][chunk.start :] == chunk.token_ids
            )
        scheduler.commit(batch, [[5 + number] for number in batch.request_ids], {})
        scheduler.check_integrity()
    assert first.metrics.num_preemptions == 0 < second.metrics.num_preemptions
    assert first.output_ids == [5] * 24 and second.output_ids == [6] * 24


def test_what_an_iteration_says_of_an_earlier_turn_is_void():
    scheduler = make(num_pages=13, max_batch_size=2)
    first, second = request(0, prompt_len=8, max_tokens=24), request(1, prompt_len=8, max_tokens=24)
    scheduler.add(first)
    scheduler.add(second)
    scheduler.commit(plan(scheduler), [[5], [6]], {})
    while not second.metrics.num_preemptions:
        batch, _, released = scheduler.schedule()
        if 1 in batch.request_ids:
            stale = batch  # not committed: it is under way when its slot is lost
            first_tokens = [[] if number else [5] for number in batch.request_ids]
            scheduler.commit(batch, first_tokens, {})
    num_before = len(second.output_ids)
    scheduler.commit(stale, [[9] for _ in stale.slots], {})
    assert len(second.output_ids) == num_before and released == (1,)


def test_pages_of_the_same_prompt_are_shared_also_within_one_iteration():
    scheduler = make(num_pages=64)
    for number in range(3):
        scheduler.add(request(number, prompt_len=22, token=7))
    batch, requests, _ = scheduler.schedule()
    assert [(chunk.start, chunk.end) for chunk in batch.chunks] == [(0, 22), (20, 22), (20, 22)]
    assert {table[:5] for table in batch.block_tables} == {batch.block_tables[0][:5]}
    assert len({table[5] for table in batch.block_tables}) == 3
    assert [one.metrics.num_cached for one in requests] == [0, 20, 20]
    scheduler.check_integrity()


@pytest.mark.parametrize(("num_draft_tokens", "num_cached"), [(K, [0, 4, 8]), (0, [0, 8, 8])])
def test_a_drafters_page_stands_for_the_token_behind_it_too(num_draft_tokens, num_cached):
    scheduler, prompts = (
        make(num_draft_tokens=num_draft_tokens),
        ([1] * 9, [1] * 8 + [2], [1] * 8 + [2, 3]),
    )
    requests = [
        Request(RequestSpec(number, prompt, SamplingParams()))
        for number, prompt in enumerate(prompts)
    ]
    for one in requests:
        scheduler.add(one)
    assert [(chunk.start, chunk.end) for chunk in plan(scheduler).chunks] == [
        (start, len(prompt)) for start, prompt in zip(num_cached, prompts, strict=True)
    ]
    scheduler.check_integrity()


def test_a_page_whose_last_token_may_be_computed_again_is_nobody_elses():
    scheduler = make()
    for number in range(2):
        scheduler.add(request(number, prompt_len=8, token=7))
    assert [(chunk.start, chunk.end) for chunk in plan(scheduler).chunks] == [(0, 8), (4, 8)]


def test_pages_are_found_again_when_their_request_has_ended():
    scheduler = make(num_pages=16)
    for number in range(2):
        one = request(number, prompt_len=13, max_tokens=1, token=3)
        scheduler.add(one)
        run_alone(scheduler, one)
        assert one.metrics.num_cached == (12 if number else 0)
    scheduler.abort()
    scheduler.add(one := request(2, prompt_len=13, token=3))
    run_alone(scheduler, one)
    assert one.metrics.num_cached == 0  # what is in the pages is in doubt


def test_what_waits_for_a_slot_is_not_looked_for_in_the_cache(monkeypatch):
    scheduler = make(max_batch_size=1)
    for number in range(2):
        scheduler.add(request(number, prompt_len=20, token=7))
    commit(scheduler, plan(scheduler), [[1]], {})
    asked: list[bytes] = []
    monkeypatch.setattr(PageAllocator, "is_published", lambda self, key: asked.append(key))
    commit(scheduler, plan(scheduler), [[1]], {})
    assert not asked
