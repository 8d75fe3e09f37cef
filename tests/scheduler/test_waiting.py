"""Who is next: clients by what they were served, their requests by arrival, and nobody never."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count, cycle, islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specguide.cache import PageAllocator
from specguide.params import SamplingParams
from specguide.request import Request, RequestSpec
from specguide.scheduler import Scheduler, SchedulerLimits
from specguide.scheduler.fairness import ClientShares
from specguide.scheduler.sequence import SequenceState
from specguide.scheduler.waiting import EQUAL_TOKENS, MOST_PASSES, WaitingQueue

NUMBERS = count()


def request(client: str = "", prompt: list[int] | int = 5, priority: int = 0, **params) -> Request:
    """A request of a prompt, or of so many tokens of its own; each comes a second after the one
    before."""
    number = next(NUMBERS)
    prompt_ids = [number + 100] * prompt if isinstance(prompt, int) else prompt
    spec = RequestSpec(
        number,
        prompt_ids,
        SamplingParams(**params),
        priority=priority,
        arrival_s=number,
        client=client,
    )
    return Request(spec)


def request_of(client: int, size: tuple[int, int]) -> Request:
    """size: tokens of prompt and output"""
    return request(str(client), size[0], max_tokens=size[1])


class Line:
    """A waiting queue, and what becomes of those that leave it: each ends at once."""

    def __init__(self, num_cached=lambda sequence: 0) -> None:
        self.shares = ClientShares()
        self.queue = WaitingQueue(self.shares, num_cached)

    def add(self, one: Request) -> SequenceState:
        sequence = SequenceState(one, len(one.prompt_ids) + one.params.max_tokens)
        self.shares.open(sequence)
        self.queue.push(sequence)
        return sequence

    def leave(self, sequence: SequenceState) -> None:
        self.shares.close(sequence)
        self.queue.place(sequence.client)

    def serve(self) -> SequenceState:
        """The next one, with all tokens of output that it may have."""
        sequence = self.queue.pop()
        sequence.request.output_ids.extend([7] * sequence.request.params.max_tokens)
        self.leave(sequence)
        return sequence


def client_of(sequence: SequenceState) -> str:
    return sequence.request.spec.client


def cost_of(sequence: SequenceState) -> int:
    return len(sequence.request.prompt_ids) + sequence.request.params.max_tokens


@given(st.lists(st.integers(-2, 2), max_size=60), st.data())
def test_one_client_is_served_in_the_order_of_the_schedule_keys(priorities, data):
    line, waiting = Line(), []
    for priority in priorities:
        waiting.append(line.add(request(priority=priority)))
        if data.draw(st.booleans()):
            gone = waiting.pop(data.draw(st.integers(0, len(waiting) - 1)))
            line.queue.remove(gone)
            line.leave(gone)
        if waiting and data.draw(st.booleans()):
            first = min(waiting, key=lambda sequence: sequence.schedule_key)
            assert line.serve() is first
            waiting.remove(first)
    waiting.sort(key=lambda sequence: sequence.schedule_key)
    assert len(line.queue) == len(waiting) and set(line.queue) == set(waiting)
    assert [line.serve() for _ in waiting] == waiting and line.queue.first() is None


sizes = st.lists(st.tuples(st.integers(1, 2000), st.integers(1, 500)), min_size=1, max_size=5)


@given(st.lists(sizes, min_size=2, max_size=5))
def test_clients_that_always_wait_are_served_alike(sizes_of):
    """However unequal their requests are: within what two requests of the largest size cost."""
    line, served = Line(), Counter()
    sources = [cycle(own_sizes) for own_sizes in sizes_of]
    for client, source in enumerate(sources):
        for size in islice(source, 2):
            line.add(request_of(client, size))
    for _ in range(50):
        sequence = line.serve()
        client = int(client_of(sequence))
        served[client] += cost_of(sequence)
        line.add(request_of(client, next(sources[client])))
    largest = max(sum(size) for own_sizes in sizes_of for size in own_sizes)
    totals = [served[client] for client in range(len(sizes_of))]
    assert max(totals) - min(totals) <= 2 * largest


@given(st.lists(st.integers(1, 30), min_size=1, max_size=8), st.integers(0, 60))
def test_who_comes_late_waits_for_two_large_requests_of_each_client_at_most(floods, num_before):
    line = Line()
    for client, num_requests in enumerate(floods):
        for size in islice(cycle((1, 700, 40)), num_requests):
            line.add(request_of(client, (size, 100)))
    for _ in range(min(num_before, len(line.queue) - 1)):
        line.serve()
    late = line.add(request("late", 700, max_tokens=100))
    num_tokens = 0
    while (sequence := line.serve()) is not late:
        num_tokens += cost_of(sequence)
    assert num_tokens <= 2 * 800 * len(floods)


def test_new_clients_without_end_do_not_keep_others_from_their_turn():
    line = Line()
    line.add(request("greedy", 9000))
    line.add(second := request("greedy", 10))
    line.serve()
    for _ in range(10):
        line.add(request(f"old {next(NUMBERS)}", 100, max_tokens=100))
    for num_before in range(2000):
        line.add(request(f"new {num_before}", 100, max_tokens=100))
        if line.serve().request is second:
            break
    assert num_before < 600  # it is 9,000 tokens ahead, each costs 200, and 11 share


def test_the_head_start_of_priority_moves_turns_and_not_shares():
    line = Line()
    for _ in range(400):
        line.add(request("plain", 500, max_tokens=100))
        line.add(request("urgent", 500, priority=1, max_tokens=100))
    order = [client_of(line.serve()) for _ in range(400)]
    head_start = order.index("plain")
    assert 20 <= head_start <= 40
    assert Counter(order[head_start:])["plain"] * 2 == pytest.approx(400 - head_start, abs=3)


def test_an_output_shorter_than_expected_is_paid_back():
    line = Line()
    for _ in range(20):
        line.add(request("short", 50, max_tokens=1000))
        line.add(request("long", 50, max_tokens=1000))
    served = Counter()
    for _ in range(20):
        sequence = line.queue.pop()
        num_tokens = {"short": 10, "long": 300}[client_of(sequence)]
        sequence.request.output_ids.extend([7] * num_tokens)
        line.leave(sequence)
        served[client_of(sequence)] += num_tokens + 50
    assert abs(served["short"] - served["long"]) <= 2 * 350


def half_cached(client: str) -> Line:
    """A line in which the prompts of one client are in the cache."""
    return Line(num_cached=lambda sequence: 4 * (client_of(sequence) == client))


def test_of_equals_who_is_in_the_cache_is_preferred_but_passes_nobody_for_ever():
    line = half_cached("warm")
    for _ in range(12):
        line.add(request("cold", max_tokens=2))
        line.add(request("warm", max_tokens=2))
    order = [client_of(line.serve()) for _ in range(10)]
    assert order == 2 * [*["warm"] * MOST_PASSES, "cold"]


def test_those_who_were_served_less_are_not_passed_over():
    line = half_cached("warm")
    line.add(request("warm", 2 * EQUAL_TOKENS))
    line.add(request("warm", 5))
    line.add(request("cold", 5))
    line.serve()
    assert client_of(line.serve()) == "cold"


def test_of_one_client_the_first_is_first_also_where_others_are_in_the_cache():
    line = Line(num_cached=lambda sequence: 4 * (sequence.request.params.max_tokens == 1))
    added = [line.add(request(max_tokens=max_tokens)) for max_tokens in (2, 1, 1)]
    assert [line.serve() for _ in added] == added


def test_nothing_is_kept_of_clients_that_have_gone():
    line = Line()
    for number in range(5000):
        line.add(request(str(number)))
        line.serve()
    line.add(request("stays"))
    for number in range(5000):
        line.add(request(str(number), priority=1))
        line.serve()
    assert len(line.shares._accounts) < 2000 and len(line.queue._turns) < 200


def make(num_pages: int = 64, max_prefill_tokens: int = 2048) -> Scheduler:
    limits = SchedulerLimits(2, 200, max_prefill_tokens, 0, 0, page_size=4)
    return Scheduler(limits, PageAllocator(num_pages), [0], lambda slot: True)


def chunks(scheduler: Scheduler) -> Iterator[tuple[int, int, int]]:
    """Each prefill to come: whose it is, and from where to where it goes."""
    while (batch := scheduler.schedule().batch) is not None:
        for row, chunk in enumerate(batch.chunks):
            yield batch.request_ids[row], chunk.start, chunk.end
        ends = [
            [] if batch.chunks and batch.chunks[row].next_id is not None else [0]
            for row in range(len(batch.slots))
        ]
        scheduler.commit(batch, ends, {})


def test_a_prompt_waits_for_the_pages_of_one_with_the_same_beginning():
    scheduler = make(max_prefill_tokens=16)
    first, second = request(prompt=[5] * 41), request(prompt=[*[5] * 40, 6, 7, 8])
    for one in (first, second):
        scheduler.add(one)
    computed = Counter()
    for number, start, end in chunks(scheduler):
        computed[number] += end - start
    assert computed[first.request_id] == 41 and computed[second.request_id] == 3


def test_who_comes_late_is_not_behind_all_prompts_for_which_there_are_slots():
    limits = SchedulerLimits(64, 4000, 2048, 0, 0, page_size=16)
    scheduler = Scheduler(limits, PageAllocator(5000), [0], lambda slot: True)
    for _ in range(60):
        scheduler.add(request("flood", 1000))
    scheduler.schedule()
    scheduler.add(late := request("late", 1000))
    assert any(late in scheduler.schedule().requests for _ in range(2))


def test_what_is_in_the_cache_costs_its_client_nothing():
    scheduler = make()
    scheduler.add(request("a", prompt=[5] * 40))
    list(chunks(scheduler))
    shares = scheduler._placement.shares
    for one in (request("a", prompt=[*[5] * 40, 9]), request("b", prompt=[6] * 41)):
        scheduler.add(one)
    scheduler.schedule()
    tags = {client: account.tag for client, account in shares._accounts.items()}
    assert tags["b"] - tags["a"] == 36  # the page of its last token is not shared
