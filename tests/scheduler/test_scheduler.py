"""The scheduler: slots, turns of prefill and decode, chunks, priorities; nothing is lost."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_scheduler import EOS, K, commit, make, plan, request, run_alone, state_of

from specguide.batch import Adjustment, Batch
from specguide.errors import InvalidParams, PromptTooLong
from specguide.request import Request
from specguide.scheduler.sequence import HEAD_START_S


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


def test_what_can_never_run_is_refused():
    with pytest.raises(PromptTooLong, match="40 tokens and the context holds 40"):
        make().add(request(prompt_len=40))
    with pytest.raises(InvalidParams, match="pages of the KV cache"):
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
