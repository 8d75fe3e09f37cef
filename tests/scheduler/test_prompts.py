"""Prompts beside those that decode: each token but the last once and in order, within budgets."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_scheduler import EOS, PAGE, K, make, request

from specguide import Guide
from specguide.batch import Batch
from specguide.params import SamplingParams
from specguide.piggyback import PiggybackLimits
from specguide.request import Request, RequestSpec
from specguide.scheduler import Scheduler
from specguide.scheduler.sequence import SequenceState

BESIDE = PiggybackLimits(max_chunks=3)
FILLED = PiggybackLimits(max_chunks=2, sizes=(4, 8, 16))


def decoding(piggyback: PiggybackLimits = BESIDE, **options) -> tuple[Scheduler, Request]:
    """A scheduler in which request 0 decodes."""
    scheduler, first = make(piggyback=piggyback, **options), request(0, max_tokens=30)
    scheduler.add(first)
    while not first.output_ids:
        step(scheduler)
    return scheduler, first


def gives_tokens(batch: Batch) -> list[bool]:
    """Whether each request gives a token: all do but those of whose prompt more is to come."""
    return [chunk.next_id is None for chunk in batch.chunks] or [True] * len(batch.slots)


def step(scheduler: Scheduler) -> Batch:
    """Run one iteration in which each request gets a token."""
    batch = scheduler.schedule().batch
    scheduler.commit(batch, [[5] if gives else [] for gives in gives_tokens(batch)], {})
    scheduler.check_integrity()
    return batch


def told(batch: Batch) -> tuple:
    """What is planned for an iteration: who decodes, the chunks beside, and who starts, at which
    position."""
    chunks = [(chunk.start, chunk.end, chunk.next_id) for chunk in batch.piggyback.chunks]
    return batch.request_ids, chunks, [(start.row, start.position) for start in batch.starts]


def test_a_prompt_rides_but_for_its_last_token_which_starts_the_request():
    scheduler, _ = decoding(max_prefill_tokens=8)
    scheduler.add(request(1, prompt_len=18))
    assert [told(step(scheduler)) for _ in range(5)] == [
        ((0,), [(0, 8, 101)], []),
        ((0,), [(8, 16, 101)], []),
        ((0,), [(16, 17, 101)], []),
        ((0, 1), [], [(1, 17)]),
        ((0, 1), [], []),
    ]


@pytest.mark.parametrize("num_prompts", [1, 2])
def test_a_prompt_of_one_token_starts_at_once(num_prompts):
    scheduler, _ = decoding()
    for number in range(1, 1 + num_prompts):
        scheduler.add(request(number, prompt_len=1))
    request_ids, chunks, starts = told(step(scheduler))
    assert request_ids == tuple(range(1 + num_prompts)) and not chunks
    assert starts == [(row, 0) for row in range(1, 1 + num_prompts)]


def test_what_is_in_the_cache_is_not_computed_again():
    scheduler, _ = decoding()
    scheduler.add(request(1, prompt_len=14, token=7))
    step(scheduler)
    scheduler.add(again := request(2, prompt_len=14, token=7))
    assert told(step(scheduler)) == ((0, 1), [(12, 13, 7)], [(1, 13)])
    assert again.metrics.num_cached == 12
    assert told(step(scheduler)) == ((0, 1, 2), [], [(2, 13)])


def test_no_more_chunks_than_there_may_be_and_those_behind_follow():
    scheduler, _ = decoding(PiggybackLimits(max_chunks=2), max_batch_size=6)
    for number in range(1, 6):
        scheduler.add(request(number, prompt_len=3))
    batches = [step(scheduler) for _ in range(4)]
    assert [len(batch.piggyback.chunks) for batch in batches] == [2, 2, 1, 0]
    assert [len(batch.starts) for batch in batches] == [0, 2, 2, 1]


def test_prompts_to_score_have_iterations_of_their_own():
    scheduler, _ = decoding()
    spec = RequestSpec(1, [101] * 6, SamplingParams(prompt_logprobs=1), arrival_s=0)
    scheduler.add(Request(spec))
    batches = [step(scheduler) for _ in range(3)]
    assert [batch.is_prefill for batch in batches].count(True) == 1
    assert not any(batch.piggyback.chunks or batch.starts for batch in batches)


def test_without_free_pages_a_prompt_waits_and_takes_nobodys():
    scheduler, first = decoding(max_prefill_tokens=16)  # as many tokens as four pages hold
    scheduler.add(late := request(1, prompt_len=34, max_tokens=2))
    step(scheduler)
    pages = scheduler._pages
    others = pages.allocate(pages.num_free)
    batch = scheduler.schedule().batch
    scheduler.commit(batch, [[5]], {})
    assert told(batch) == ((0,), [], [])
    pages.free(others)
    assert told(step(scheduler)) == ((0,), [(16, 32, 101)], [])
    assert first.metrics.num_preemptions == late.metrics.num_preemptions == 0


def test_who_loses_its_pages_while_its_prompt_rides_begins_again():
    scheduler, _ = decoding(max_prefill_tokens=4)
    scheduler.add(late := request(1, prompt_len=14))
    step(scheduler)
    placement = scheduler._placement
    placement.preempt(scheduler._sequences[late.request_id])
    scheduler.check_integrity()
    chunk = step(scheduler).piggyback.chunks[0]
    assert late.metrics.num_preemptions == 1 and chunk.start == 4  # its first page is found again


def test_who_loses_its_pages_as_it_starts_starts_again_with_another_matcher():
    scheduler, _ = decoding()
    scheduler.add(late := request(1, prompt_len=6))
    step(scheduler)
    stale = scheduler.schedule().batch
    assert stale.starts[0].starts_walk
    scheduler._placement.preempt(scheduler._sequences[late.request_id])
    scheduler.commit(stale, [[5], [9]], {})
    assert not late.output_ids
    while not (batch := step(scheduler)).starts:
        pass
    assert batch.starts[0].starts_walk and late.output_ids == [5]


def test_a_start_that_is_held_decodes_on():
    scheduler, _ = decoding()
    scheduler.add(late := request(1, prompt_len=3))
    step(scheduler)
    scheduler.commit(scheduler.schedule().batch, [[5], []], {})
    assert late.metrics.num_held == 1 and not late.output_ids
    assert told(step(scheduler)) == ((0, 1), [], []) and late.output_ids == [5]
    assert late.metrics.num_iterations == 0  # in which drafts are verified
    step(scheduler)
    assert late.metrics.num_iterations == 1 and late.metrics.accepted_histogram[0] == 1


def test_a_prefill_whose_first_row_was_late_starts_beside_and_goes_on_with_its_matcher():
    scheduler, requests = make(piggyback=BESIDE), [request(0, max_tokens=30), request(1)]
    for one in requests:
        scheduler.add(one)
    scheduler.commit(scheduler.schedule().batch, [[5], []], {})
    batch = step(scheduler)
    assert told(batch) == ((0, 1), [], [(1, 4)]) and not batch.starts[0].starts_walk


def test_who_starts_behind_chunks_that_are_under_way_is_not_at_its_end():
    scheduler = make(piggyback=BESIDE, max_prefill_tokens=4)
    scheduler.add(one := request(prompt_len=9, max_tokens=2))
    chunks = [scheduler.schedule().batch for _ in range(2)]
    start = scheduler.schedule().batch
    assert told(start) == ((0,), [], [(0, 8)])
    for batch, tokens in zip((*chunks, start), ([], [], [5, 6]), strict=True):
        scheduler.commit(batch, [tokens], {})
    assert one.output_ids == [5, 6] and one.finish_reason == "length"


def test_a_guided_request_may_be_held_in_what_would_be_its_last_iteration():
    """A GPU's iterations run all slots that are active, so that it is in each of them."""
    scheduler = make(piggyback=BESIDE)
    requests = request(max_tokens=2, guide=Guide(regex="a*")), request(1, max_tokens=2), request(2)
    for one in requests:
        scheduler.add(one)
    first, last, behind = (scheduler.schedule().batch for _ in range(3))
    assert first.is_prefill and last.slots == (0, 1, 2) and behind.slots == (0, 2)
    scheduler.commit(first, [[5]] * 3, {})
    scheduler.commit(last, [[], [5], [5]], {})
    scheduler.commit(behind, [[5], [5]], {})
    assert [len(one.output_ids) for one in requests] == [2, 2, 3]


def test_a_request_that_leaves_while_its_prompt_rides():
    scheduler, _ = decoding(max_prefill_tokens=4)
    scheduler.add(late := request(1, prompt_len=14))
    batch = scheduler.schedule().batch
    assert scheduler.cancel(late) == batch.piggyback.slots
    scheduler.commit(batch, [[5]], {})
    scheduler.check_integrity()
    assert told(step(scheduler)) == ((0,), [], []) and late.finish_reason == "abort"


def test_the_rest_of_a_prompt_is_computed_alone_once_nobody_decodes():
    scheduler, first = decoding(max_prefill_tokens=4)
    scheduler.add(request(1, prompt_len=14))
    step(scheduler)
    scheduler.cancel(first)
    batch = step(scheduler)
    assert batch.is_prefill and batch.chunks[0].start == 4


@dataclass
class Computed:
    """Follows what batches compute, and fails where a token is left out or computed twice."""

    scheduler: Scheduler
    limits: PiggybackLimits
    max_prefill_tokens: int
    next_position: dict[tuple[int, int], int] = field(default_factory=dict)

    def take(self, batch: Batch) -> None:
        """Take one more batch, before it is committed."""
        beside, budget = batch.piggyback, max(self.max_prefill_tokens, *self.limits.sizes[:1], 1)
        assert batch.num_prompt_tokens <= budget and len(beside.chunks) <= self.limits.max_chunks
        assert not set(beside.slots) & set(batch.slots)
        assert all(chunk.next_id is not None for chunk in beside.chunks)
        by_slot = {one.slot: one for one in self.scheduler._sequences.values() if one.slot >= 0}
        slots = (*(batch.slots if batch.is_prefill else ()), *beside.slots)
        for slot, chunk in zip(slots, (*batch.chunks, *beside.chunks), strict=True):
            self._follow(by_slot[slot], chunk.start, list(chunk.token_ids))
        for start in batch.starts:
            self._follow(by_slot[batch.slots[start.row]], start.position, [start.last_id])
        for slot in () if batch.is_prefill else batch.slots:
            one = by_slot[slot]
            assert self.next_position[one.request_id, one.epoch] >= len(one.request.prompt_ids)

    def _follow(self, sequence: SequenceState, start: int, token_ids: list[int]) -> None:
        """The first chunk of a turn begins behind what was in the cache; a held one comes again."""
        turn = sequence.request_id, sequence.epoch
        is_again = sequence.request.metrics.num_held > 0 and start == sequence.num_tokens - 1
        assert start == self.next_position.get(turn, start) or is_again
        assert turn in self.next_position or start % PAGE == 0
        assert token_ids == sequence.tokens(start, start + len(token_ids))
        self.next_position[turn] = start + len(token_ids)


@dataclass
class Device:
    """Says what an iteration may give, nothing now and then. Who was held in a prefill gives
    nothing until it starts again."""

    random: Random
    stopped: set[int] = field(default_factory=set)

    def say(self, batch: Batch) -> list[list[int]]:
        """A token of a request whose drafts were not verified, else up to K + 1."""
        self.stopped -= {batch.slots[start.row] for start in batch.starts}
        said = []
        for row, (slot, gives) in enumerate(zip(batch.slots, gives_tokens(batch), strict=True)):
            most = gives * (1 if row in batch.first_rows else K + 1)
            if slot in self.stopped and not batch.is_prefill:
                most = 0
            said.append([self.random.randint(EOS, 9) for _ in range(self.random.randint(0, most))])
            if batch.is_prefill:
                (self.stopped.discard if said[-1] else self.stopped.add)(slot)
        return said


sizes_of_requests = st.lists(
    st.tuples(st.integers(1, 30), st.integers(1, 20)), min_size=2, max_size=20
)


@given(
    sizes_of_requests,
    st.sampled_from([BESIDE, FILLED, PiggybackLimits(1)]),
    st.sampled_from([4, 7, 40]),
    st.integers(0, 2),
    st.integers(0, 2**32),
)
def test_every_prompt_token_is_computed_once_and_in_order(sizes, beside, budget, lag, seed):
    random = Random(seed)
    scheduler = make(num_pages=24, max_batch_size=3, max_prefill_tokens=budget, piggyback=beside)
    computed, device, under_way = Computed(scheduler, beside, budget), Device(random), deque()
    requests = [request(i, prompt_len=n, max_tokens=m) for i, (n, m) in enumerate(sizes)]
    coming = deque(requests)
    while coming or scheduler.num_unfinished:
        if coming and random.random() < 0.5:
            scheduler.add(coming.popleft())
        if random.random() < 0.02:
            scheduler.cancel(random.choice(requests[: len(requests) - len(coming)] or requests[:1]))
        batch = scheduler.schedule().batch
        if batch is not None:
            computed.take(batch)
            under_way.append(batch)
        scheduler.check_integrity()
        while under_way and (len(under_way) > lag or batch is None):
            oldest = under_way.popleft()
            scheduler.commit(oldest, device.say(oldest), {})
    scheduler.check_integrity()
    assert all(one.finish_reason is not None for one in requests)
