"""The scheduler: admission by slots and pages, tokens taken into requests, nothing lost."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_scheduler import EOS, K, make, request

from specguide.batch import Adjustment, Batch
from specguide.cache import PageAllocator
from specguide.errors import InvalidParams, PromptTooLong, RequestError
from specguide.params import SamplingParams
from specguide.request import Request, RequestSpec
from specguide.scheduler import Scheduler
from specguide.scheduler.sequence import HEAD_START_S, SequenceState


def plan(scheduler: Scheduler) -> Batch | None:
    return scheduler.schedule().batch


def state_of(scheduler: Scheduler, one: Request) -> SequenceState:
    return scheduler._sequences[one.request_id]


def commit(scheduler: Scheduler, *results) -> list[Request]:
    """Commit an iteration; returns the requests that have finished."""
    return list(scheduler.commit(*results).finished)


def test_prefill_and_decode_take_turns_and_slots_are_distinct():
    scheduler = make()
    first, second = request(0), request(1)
    scheduler.add(first)
    batch = plan(scheduler)
    assert batch.is_prefill and batch.request_ids == (0,)
    scheduler.commit(batch, [[7]], {})
    scheduler.add(second)
    batch = plan(scheduler)
    assert not batch.is_prefill and batch.request_ids == (0,)  # it is not stalled by who came now
    scheduler.commit(batch, [[8]], {})
    batch = plan(scheduler)
    assert batch.is_prefill and batch.request_ids == (1,)
    assert batch.slots != (state_of(scheduler, first).slot,)
    scheduler.commit(batch, [[8]], {})
    batch = plan(scheduler)
    assert not batch.is_prefill and batch.request_ids == (0, 1)
    scheduler.check_integrity()


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
    scheduler.commit(plan(scheduler), [[5]], {})
    assert plan(scheduler) is None and scheduler.num_unfinished == 1
    busy.clear()
    assert plan(scheduler).slots == (0,)


def said(batch: Batch, random: Random) -> list[list[int]]:
    """Tokens that an iteration may give: none for a chunk that is not the last."""

    def num_most(index: int) -> int:
        return K + 1 if not batch.is_prefill else batch.chunks[index].next_id is None

    return [
        [random.randint(0, 9) for _ in range(random.randint(0, num_most(index)))]
        for index in range(len(batch.slots))
    ]


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(1, 20)), min_size=1, max_size=30),
    st.integers(0, 2**32),
)
def test_every_request_finishes_and_nothing_leaks(sizes, seed):
    random = Random(seed)
    scheduler = make(
        num_pages=18, max_batch_size=3, max_prefill_tokens=random.choice([5, 40, 2048])
    )
    requests = [
        request(i, prompt_len=n, max_tokens=m, token=random.choice([None, 1, 2]))
        for i, (n, m) in enumerate(sizes)
    ]
    for one in requests:
        scheduler.add(one)
    finished: list[Request] = []
    while (batch := plan(scheduler)) is not None:
        scheduler.check_integrity()
        finished += commit(scheduler, batch, said(batch, random), {})
        scheduler.check_integrity()
    assert sorted(one.request_id for one in finished) == list(range(len(requests)))
    assert all(1 <= len(one.output_ids) <= one.params.max_tokens for one in requests)


def test_abort_ends_all_and_frees_all():
    scheduler, requests = make(max_batch_size=1), [request(i) for i in range(3)]
    for one in requests:
        scheduler.add(one)
    plan(scheduler)
    assert set(scheduler.abort().finished) == set(requests)
    assert {one.finish_reason for one in requests} == {"abort"} and scheduler.num_unfinished == 0
    scheduler.check_integrity()


def run_alone(scheduler: Scheduler, one: Request) -> None:
    """Run a request alone to the end of its prompt and its first token."""
    while not one.output_ids:
        batch = plan(scheduler)
        scheduler.commit(
            batch, [[5] if chunk.next_id is None else [] for chunk in batch.chunks], {}
        )


def test_a_long_prompt_is_computed_in_chunks_and_others_decode_between_them():
    scheduler, first, long = (
        make(max_prefill_tokens=8),
        request(0, max_tokens=30),
        request(1, prompt_len=21),
    )
    scheduler.add(first)
    run_alone(scheduler, first)
    scheduler.add(long)
    plans = []
    for _ in range(6):
        batch = plan(scheduler)
        plans.append([(chunk.start, chunk.end, chunk.next_id) for chunk in batch.chunks])
        scheduler.commit(
            batch, [[] if chunk.next_id is not None else [5] for chunk in batch.chunks] or [[6]], {}
        )
        scheduler.check_integrity()
    assert plans == [[], [(0, 8, 101)], [], [(8, 16, 101)], [], [(16, 21, None)]]
    assert long.output_ids == [5] and len(first.output_ids) == 4


def test_the_tokens_that_adjust_the_logits_come_with_the_last_chunk():
    """All of a long prompt with each of its chunks would take the square of its length."""
    scheduler = make(max_prefill_tokens=5)
    penalty = Adjustment(None, (), (), {}, 0, (), 1.5, 0.0, 0.0)
    scheduler.add(request(prompt_len=12), penalty)
    found = []
    for tokens in ([], [], [1]):
        batch = plan(scheduler)
        found.append(batch.entries[0].adjusted)
        commit(scheduler, batch, [tokens], {})
    assert all(one.adjustment is penalty for one in found)
    assert [len(one.prompt_ids) for one in found] == [0, 0, 12]


def test_prompts_share_a_budget():
    scheduler = make(max_prefill_tokens=12)
    for number in range(3):
        scheduler.add(request(number, prompt_len=9))
    batch = plan(scheduler)
    assert [(chunk.start, chunk.end) for chunk in batch.chunks] == [(0, 9), (0, 3)]


def test_priority_is_a_head_start_that_nobody_keeps_for_ever():
    scheduler = make(max_batch_size=1)
    low, high = request(0, arrival_s=0), request(1, arrival_s=5, priority=1)
    late = request(2, arrival_s=HEAD_START_S + 1, priority=1)
    for one in (late, low, high):
        scheduler.add(one)
    order = []
    while (batch := plan(scheduler)) is not None:
        order += batch.request_ids if batch.is_prefill else ()
        scheduler.commit(batch, [[EOS]], {})
    assert order == [1, 0, 2]


@pytest.mark.parametrize("many", [10**6, 10**400], ids=["many", "too many"])
def test_any_priority_can_be_compared(many):
    scheduler = make(max_batch_size=1)
    for number, priority in enumerate((-many, many, 0)):
        scheduler.add(request(number, priority=priority, max_tokens=1))
    order = []
    while (batch := plan(scheduler)) is not None:
        order += batch.request_ids
        scheduler.commit(batch, [[5]], {})
    assert order == [1, 2, 0]


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
