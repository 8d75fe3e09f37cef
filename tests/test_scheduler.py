"""The scheduler: admission by slots and pages, tokens taken into requests, nothing lost."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specguide.cache import PageAllocator
from specguide.errors import InvalidParams, PromptTooLong, RequestError
from specguide.params import SamplingParams
from specguide.request import Request
from specguide.scheduler import Scheduler

EOS, K, PAGE = 0, 3, 4


def make(num_pages: int = 64, max_batch_size: int = 4, max_model_len: int = 40, is_idle=lambda slot: True) -> Scheduler:
    return Scheduler(max_batch_size=max_batch_size, max_model_len=max_model_len, num_draft_tokens=K, page_size=PAGE,
                     pages=PageAllocator(num_pages), eos_token_ids=[EOS], slot_is_idle=is_idle)


def request(number: int = 0, prompt_len: int = 5, **params) -> Request:
    return Request(number, [1] * prompt_len, SamplingParams(**params), seed=0)


def test_prefill_comes_before_decode_and_slots_are_distinct():
    scheduler = make()
    first, second = request(0), request(1)
    scheduler.add(first)
    batch = scheduler.schedule()
    assert batch.is_prefill and batch.requests == (first,)
    scheduler.commit(batch, [[7]], {})
    scheduler.add(second)
    batch = scheduler.schedule()
    assert batch.requests == (second,) and second.slot != first.slot
    scheduler.commit(batch, [[8]], {})
    batch = scheduler.schedule()
    assert not batch.is_prefill and batch.requests == (first, second)
    scheduler.check_integrity()


def test_an_accepted_window_ends_exactly_at_the_end_token():
    scheduler, one = make(), request(max_tokens=20)
    scheduler.add(one)
    scheduler.commit(scheduler.schedule(), [[5]], {})
    finished = scheduler.commit(scheduler.schedule(), [[6, EOS, 9, 9]], {})
    assert finished == [one] and one.output_ids == [5, 6, EOS] and one.finish_reason == "stop"
    assert one.metrics.accepted_histogram == [0, 1, 0, 0] and one.metrics.acceptance_length == 2
    scheduler.check_integrity()


@pytest.mark.parametrize(("params", "expected"), [
    (dict(max_tokens=2), ([5, 6], "length")), (dict(max_tokens=9, stop_token_ids=[6]), ([5, 6], "stop")),
    (dict(max_tokens=4, ignore_eos=True), ([5, 6, EOS, 9], "length"))])
def test_how_a_request_ends(params, expected):
    scheduler, one = make(), request(**params)
    scheduler.add(one)
    scheduler.commit(scheduler.schedule(), [[5]], {})
    scheduler.commit(scheduler.schedule(), [[6, EOS, 9, 9]], {})
    assert (one.output_ids, one.finish_reason) == expected


def test_a_held_slot_keeps_its_request_as_it_was():
    scheduler, one = make(), request()
    scheduler.add(one)
    scheduler.commit(scheduler.schedule(), [[]], {})
    batch = scheduler.schedule()
    assert batch.is_prefill and one.metrics.num_held == 1
    scheduler.commit(batch, [[3]], {})
    scheduler.commit(scheduler.schedule(), [[]], {})
    assert one.output_ids == [3] and one.metrics.num_iterations == 0 and one.metrics.num_held == 2


def test_an_error_ends_its_own_request_only():
    scheduler, requests = make(), [request(i) for i in range(2)]
    for one in requests:
        scheduler.add(one)
    cause = RequestError("broken")
    finished = scheduler.commit(scheduler.schedule(), [[1], [1]], {requests[0].slot: cause})
    assert finished == [requests[0]] and requests[0].error is cause and requests[0].finish_reason == "error"
    assert requests[1].output_ids == [1] and requests[1].finish_reason is None


def test_what_can_never_run_is_refused():
    with pytest.raises(PromptTooLong, match="40 tokens and the context holds 40"):
        make().add(request(prompt_len=40))
    with pytest.raises(InvalidParams, match="cache pages"):
        make(num_pages=2).add(request(max_tokens=30))


def test_a_slot_is_used_again_only_when_idle():
    busy = {0}
    scheduler = make(max_batch_size=1, is_idle=lambda slot: slot not in busy)
    for number in range(2):
        scheduler.add(request(number, max_tokens=1))
    scheduler.commit(scheduler.schedule(), [[5]], {})
    assert scheduler.schedule() is None and scheduler.num_unfinished == 1
    busy.clear()
    assert scheduler.schedule().slots == (0,)


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 20)), min_size=1, max_size=30), st.integers(0, 2**32))
def test_every_request_finishes_and_nothing_leaks(sizes, seed):
    random = Random(seed)
    scheduler = make(num_pages=20, max_batch_size=3)
    requests = [request(i, prompt_len=n, max_tokens=m) for i, (n, m) in enumerate(sizes)]
    for one in requests:
        scheduler.add(one)
    finished: list[Request] = []
    while (batch := scheduler.schedule()) is not None:
        width = 1 if batch.is_prefill else K + 1
        tokens = [[random.randint(0, 9) for _ in range(random.randint(0, width))] for _ in batch.requests]
        finished += scheduler.commit(batch, tokens, {})
        scheduler.check_integrity()
    assert sorted(one.request_id for one in finished) == list(range(len(requests)))
    assert all(1 <= len(one.output_ids) <= one.params.max_tokens for one in requests)


def test_abort_ends_all_and_frees_all():
    scheduler, requests = make(max_batch_size=1), [request(i) for i in range(3)]
    for one in requests:
        scheduler.add(one)
    scheduler.schedule()
    assert set(scheduler.abort()) == set(requests)
    assert {one.finish_reason for one in requests} == {"abort"} and scheduler.num_unfinished == 0
    scheduler.check_integrity()


def test_a_request_can_be_cancelled_wherever_it_is():
    scheduler, requests = make(max_batch_size=2), [request(i) for i in range(4)]
    for one in requests[:3]:
        scheduler.add(one)
    batch = scheduler.schedule()
    scheduler.cancel(requests[0])
    scheduler.cancel(requests[2])
    scheduler.cancel(requests[3], cause := RequestError("too late"))
    assert scheduler.commit(batch, [[5], [5]], {}) == []
    assert [one.finish_reason for one in requests] == ["abort", None, "abort", "error"] and requests[3].error is cause
    assert requests[0].output_ids == [] and requests[1].output_ids == [5] and scheduler.num_unfinished == 1
    scheduler.check_integrity()
