"""How requests end: by their tokens, by errors, by a cancellation, and what held slots and prefills
wait for."""

from __future__ import annotations

import pytest
from small_scheduler import EOS, commit, make, plan, request, run_alone, state_of

from specguide.errors import RequestError
from specguide.request import Request
from specguide.scheduler import Scheduler


def test_an_accepted_window_ends_exactly_at_the_end_token():
    scheduler, one = make(), request(max_tokens=20)
    scheduler.add(one)
    scheduler.commit(plan(scheduler), [[5]], {})
    finished = commit(scheduler, plan(scheduler), [[6, EOS, 9, 9]], {})
    assert finished == [one] and one.output_ids == [5, 6, EOS] and one.finish_reason == "stop"
    assert one.metrics.accepted_histogram == [0, 1, 0, 0] and one.metrics.acceptance_length == 2
    scheduler.check_integrity()


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (dict(max_tokens=2), ([5, 6], "length")),
        (dict(max_tokens=9, stop_token_ids=[6]), ([5, 6], "stop")),
        (dict(max_tokens=4, ignore_eos=True), ([5, 6, EOS, 9], "length")),
    ],
)
def test_how_a_request_ends(params, expected):
    scheduler, one = make(), request(**params)
    scheduler.add(one)
    scheduler.commit(plan(scheduler), [[5]], {})
    scheduler.commit(plan(scheduler), [[6, EOS, 9, 9]], {})
    assert (one.output_ids, one.finish_reason) == expected


def test_a_held_slot_keeps_its_request_as_it_was():
    scheduler, one = make(), request()
    scheduler.add(one)
    scheduler.commit(plan(scheduler), [[]], {})
    batch = plan(scheduler)
    assert batch.is_prefill and one.metrics.num_held == 1
    scheduler.commit(batch, [[3]], {})
    scheduler.commit(plan(scheduler), [[]], {})
    assert one.output_ids == [3] and one.metrics.num_iterations == 0 and one.metrics.num_held == 2


def pause_of(scheduler: Scheduler, one: Request, tokens: list[int]) -> int:
    """Number of iterations for which others decode, one token each, until a request's prefill is
    planned again, which gives `tokens`."""
    for num_others in range(99):
        batch = plan(scheduler)
        if one.request_id in batch.request_ids:
            assert batch.is_prefill
            scheduler.commit(batch, [tokens], {})
            return num_others
        scheduler.commit(batch, [[5]], {})
    raise AssertionError


def test_a_prefill_that_is_held_waits_the_longer_the_more_often_in_a_row():
    scheduler, other, one = (
        make(num_pages=80, max_model_len=200),
        request(0, max_tokens=150),
        request(1, max_tokens=40),
    )
    scheduler.add(other)
    run_alone(scheduler, other)
    scheduler.add(one)
    assert [pause_of(scheduler, one, tokens) for tokens in ([], [], [], [7])] == [1, 2, 4, 8]
    for _ in range(9):  # this says nothing of another matcher, later
        scheduler.commit(plan(scheduler), [[5], []], {})
    assert one.metrics.num_held == 12 and one.output_ids == [7]
    scheduler._placement.preempt(state_of(scheduler, one))
    assert [pause_of(scheduler, one, tokens) for tokens in ([], [], [7])] == [0, 2, 4]
    scheduler.check_integrity()


def test_another_matcher_begins_without_the_pause_of_the_last_one():
    scheduler, other, one = (
        make(num_pages=80, max_model_len=200),
        request(0, max_tokens=150),
        request(1, max_tokens=40),
    )
    scheduler.add(other)
    run_alone(scheduler, other)
    scheduler.add(one)
    assert [pause_of(scheduler, one, []) for _ in range(4)] == [1, 2, 4, 8]
    scheduler._placement.preempt(state_of(scheduler, one))
    assert pause_of(scheduler, one, [7]) <= 1


def test_an_error_behind_the_last_token_comes_too_late():
    scheduler, requests = make(), [request(0, max_tokens=2), request(1, max_tokens=9), request(2)]
    for one in requests:
        scheduler.add(one)
    scheduler.commit(plan(scheduler), [[5]] * 3, {})
    cause = RequestError("broken")
    batch = plan(scheduler)
    scheduler.commit(batch, [[6], [6, EOS], [6, 7]], dict.fromkeys(batch.slots, cause))
    assert [(one.output_ids, one.finish_reason, one.error) for one in requests] == [
        ([5, 6], "length", None),
        ([5, 6, EOS], "stop", None),
        ([5, 6, 7], "error", cause),
    ]


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ([6, 7], ([5, 6, 7], "length", None)),
        ([EOS], ([5, EOS], "stop", None)),
        ([], ([5], "error", "broken")),
    ],
)
def test_an_error_waits_for_the_iterations_that_are_under_way(last, expected):
    """The error may be a later iteration's, whose tokens come before it."""
    scheduler, one, other = make(), request(0, max_tokens=3), request(1, max_tokens=30)
    for each in (one, other):
        scheduler.add(each)
    scheduler.commit(plan(scheduler), [[5], [5]], {})
    held, next_one = plan(scheduler), plan(scheduler)
    slot = held.slots[0]
    assert commit(scheduler, held, [[], [6]], {slot: RequestError("broken")}) == []
    assert plan(scheduler).request_ids == (other.request_id,)
    assert commit(scheduler, next_one, [last, [6]], {slot: RequestError("later")}) == [one]
    assert (one.output_ids, one.finish_reason, one.error and str(one.error)) == expected
    scheduler.check_integrity()


def test_nothing_comes_behind_a_token_that_none_can_follow():
    scheduler, one, complete = make(), request(0, max_tokens=9), request(1, max_tokens=2)
    for each in (one, complete):
        scheduler.add(each)
    scheduler.commit(plan(scheduler), [[5], [5]], {})
    batches, cause = (
        [plan(scheduler), plan(scheduler)],
        RequestError("no token can follow"),
    )
    assert commit(scheduler, batches[0], [[6, -1], [6, -1]], {0: cause, 1: cause}) == [
        one,
        complete,
    ]
    assert commit(scheduler, batches[1], [[7], [7]], {}) == []
    assert (one.output_ids, one.error) == ([5, 6], cause) and (
        complete.output_ids,
        complete.error,
    ) == ([5, 6], None)


def test_an_error_ends_its_own_request_only():
    scheduler, requests = make(), [request(i) for i in range(2)]
    for one in requests:
        scheduler.add(one)
    cause = RequestError("broken")
    batch = plan(scheduler)
    finished = commit(scheduler, batch, [[1], [1]], {batch.slots[0]: cause})
    assert (
        finished == [requests[0]]
        and requests[0].error is cause
        and requests[0].finish_reason == "error"
    )
    assert requests[1].output_ids == [1] and requests[1].finish_reason is None


def test_abort_ends_all_and_frees_all():
    scheduler, requests = make(max_batch_size=1), [request(i) for i in range(3)]
    for one in requests:
        scheduler.add(one)
    plan(scheduler)
    assert set(scheduler.abort().finished) == set(requests)
    assert {one.finish_reason for one in requests} == {"abort"} and scheduler.num_unfinished == 0
    scheduler.check_integrity()


def test_a_request_can_be_cancelled_wherever_it_is():
    scheduler, requests = make(max_batch_size=2), [request(i) for i in range(4)]
    for one in requests[:3]:
        scheduler.add(one)
    batch = plan(scheduler)
    scheduler.cancel(requests[0])
    scheduler.cancel(requests[2])
    scheduler.cancel(requests[3], cause := RequestError("too late"))
    assert commit(scheduler, batch, [[5], [5]], {}) == []
    assert [one.finish_reason for one in requests] == [
        "abort",
        None,
        "abort",
        "error",
    ] and requests[3].error is cause
    assert (
        requests[0].output_ids == []
        and requests[1].output_ids == [5]
        and scheduler.num_unfinished == 1
    )
    scheduler.check_integrity()
