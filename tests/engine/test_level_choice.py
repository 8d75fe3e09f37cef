"""The choice of how much is drafted, on a made-up clock: what it costs, and how soon it finds the
best level."""

from __future__ import annotations

import random
from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from operator import add
from types import SimpleNamespace

import pytest

from specguide.batch import Batch, Chunk, Piggyback
from specguide.config import SpecConfig
from specguide.drafts.layout import DraftLayout
from specguide.drafts.tree import DynamicTree
from specguide.engine.levels.choice import LevelChoice
from specguide.engine.levels.rates import LevelPlan
from specguide.engine.levels.times import LevelTimes
from specguide.engine.levels.trials import LevelTrials
from specguide.engine.observers import Committed
from specguide.params import SamplingParams
from specguide.request import Request, RequestSpec
from specguide.request_records import IterationTimes
from specguide.scheduler import Advance

K = DraftLayout.chain(num_model=3)
WITH_FORCED = DraftLayout.chain(num_model=3, num_forced=8)
TREE = SpecConfig(tree=DynamicTree()).layout
PROMPT = Piggyback((9,), ((),), (Chunk([1, 2], 0),), (0,))
GPU, CPU = (4.9, 5.9, 6.4, 8.0), (10.0, 16.4, 20.0, 70.0)  # an iteration's time by level


@dataclass
class World:
    """Requests whose iterations take a known time and accept what a function of the token's place
    says."""

    layout: DraftLayout
    times: tuple[float, ...]
    accepted: Callable[[random.Random, int, int], int]  # by place and level
    batch_size: int = 1
    lag: int = 1
    rng: random.Random = field(default_factory=lambda: random.Random(1))
    slowness: Callable[[float], float] = lambda now: 1.0  # by time
    num_requests: int = 0  # so far
    prompt_s: float = 0.0  # what an iteration takes longer with prompts, which always wait; 0: none
    plans: list[tuple[LevelPlan, bool]] = field(default_factory=list)
    """Of each iteration, and whether there were prompts beside."""

    def __post_init__(self) -> None:
        self.choice = LevelChoice(self.layout)
        self.now = 0.0

    def write(self, num_tokens: int, *, is_adaptive: bool = True, level: int = 0) -> float:
        """Time until new requests have so many tokens each; not adaptive: at `level` all the
        time."""
        self.num_requests += self.batch_size
        request_ids = tuple(range(self.num_requests - self.batch_size, self.num_requests))
        batch = Batch(request_ids, tuple(range(self.batch_size)), ())
        places, begin, under_way, verified = [0] * self.batch_size, self.now, [], level
        while min(places) < num_tokens:
            plan = LevelPlan(verified, level)
            launched = batch
            if is_adaptive:
                mixes = bool(self.prompt_s) and self.choice.mixes
                launched = self.choice.choose(replace(batch, piggyback=PROMPT) if mixes else batch)
                plan = LevelPlan(*map(self.layout.levels.index, launched.levels))
                self.plans.append((plan, mixes))
                self.now += self.prompt_s * mixes
            self.now += (
                (self.times[plan.verified] + self.times[plan.drafted])
                / 2
                * self.rng.uniform(0.97, 1.03)
                * (self.slowness(self.now))
            )
            counts = [
                1 + (self.accepted(self.rng, place, plan.verified) if plan.verified else 0)
                for place in places
            ]
            places = list(map(add, places, counts))
            if is_adaptive:
                under_way.append((launched, counts, self.now))
                if len(under_way) > self.lag:
                    self.choice.take(committed(*under_way.pop(0)))
        return self.now - begin


def committed(batch: Batch, counts: list[int], end_s: float) -> Committed:
    output = SimpleNamespace(num_tokens=array("i", counts))  # like a tensor, but made sooner
    advances = [Advance((0,) * num_tokens) for num_tokens in counts]
    return Committed(batch, (), output, IterationTimes(0.0, 0.0, end_s), advances)


def never(rng: random.Random, place: int, level: int) -> int:
    return 0


def mostly(rng: random.Random, place: int, level: int) -> int:
    return (
        sum(rng.random() < 0.62 for _ in range(3))
        + (level >= 2) * rng.randrange(4)
        + (level == 3) * 2
    )


def by_stretches(rng: random.Random, place: int, level: int) -> int:
    return mostly(rng, place, level) if place // 200 % 2 else 0


@pytest.mark.parametrize(("batch_size", "lag"), [(1, 0), (1, 2), (16, 2)])
@pytest.mark.parametrize("times", [GPU, CPU])
@pytest.mark.parametrize("layout", [K, WITH_FORCED, TREE])
def test_what_is_never_right_costs_two_percent_at_most(layout, times, batch_size, lag):
    world = World(layout, times, never, batch_size, lag)
    world.write(400)
    assert world.write(4000, is_adaptive=False) / world.write(4000) >= 0.98
    short = sum(world.write(50) for _ in range(40))
    assert world.write(2000, is_adaptive=False) / short >= 0.98, (
        "requests begin with what others have shown"
    )


@pytest.mark.parametrize("times", [GPU, CPU])
def test_a_machine_that_is_slower_at_times_is_no_reason_to_draft(times):
    world = World(K, times, never, slowness=lambda now: 2.0 if now // 300 % 2 else 1.0)
    world.write(400)
    drafted = []
    choose = world.choice._next
    world.choice._next = lambda batch: drafted.append(choose(batch)) or drafted[-1]
    world.write(4000)
    assert sum(drafted) < 0.02 * len(drafted)


@pytest.mark.parametrize("batch_size", [1, 8])
@pytest.mark.parametrize("times", [GPU, CPU])
@pytest.mark.parametrize("layout", [K, WITH_FORCED, TREE])
def test_what_is_mostly_right_is_drafted(layout, times, batch_size):
    world = World(layout, times, mostly, batch_size)
    world.write(200)
    best = min(
        world.write(8000, is_adaptive=False, level=level) for level in range(len(layout.levels))
    )
    assert best / world.write(8000) >= 0.97


@pytest.mark.parametrize(
    ("layout", "times", "least"),
    [
        (K, GPU, 0.88),
        (WITH_FORCED, GPU, 0.88),
        (TREE, GPU, 0.85),
        (K, CPU, 0.8),
        (WITH_FORCED, CPU, 0.8),
        (TREE, CPU, 0.8),
    ],
)
def test_it_follows_a_text_that_changes(times, least, layout):
    world, of_both = World(layout, times, by_stretches), 0.0
    world.write(400)
    for accepted, levels in ((never, (0,)), (mostly, range(len(layout.levels)))):
        one = World(layout, times, accepted)
        of_both += min(one.write(2000, is_adaptive=False, level=level) for level in levels)
    assert of_both / world.write(4000) >= least


def test_where_all_levels_gain_the_same_none_is_lost():
    world = World(K, (4.9, 4.9 * 1.4), lambda rng, place, level: rng.random() < 0.4)
    world.write(400)
    assert world.write(4000, is_adaptive=False) / world.write(4000) >= 0.96


@pytest.mark.parametrize("lag", [0, 2])
@pytest.mark.parametrize("layout", [K, WITH_FORCED, TREE])
def test_where_prompts_always_wait_a_level_is_found_and_most_iterations_take_some(layout, lag):
    for accepted in (never, mostly):
        alone = World(layout, GPU, accepted, batch_size=8, lag=lag)
        beside = World(layout, GPU, accepted, batch_size=8, lag=lag, prompt_s=3.0)
        for world in (alone, beside):
            world.write(4000)
        levels = [
            Counter(plan.drafted for plan, _ in world.plans[400:]).most_common(1)[0][0]
            for world in (alone, beside)
        ]
        assert levels[0] == levels[1]
        assert sum(mixes for _, mixes in beside.plans[400:]) > 0.85 * len(beside.plans[400:])
        assert all(plan.verified == plan.drafted for plan, mixes in beside.plans if mixes)


def test_many_requests_draft_little():
    """60 nodes of each of 16 are more than a forward pass takes for nothing, 16 nodes are not."""
    world = World(TREE, GPU, mostly, batch_size=16)
    drafted = []
    choose = world.choice._next
    world.choice._next = lambda batch: drafted.append(choose(batch)) or drafted[-1]
    world.write(2000)
    assert max(drafted) == 2
    world.batch_size = 8
    world.write(8000)
    assert drafted[-1] == 3
    world.batch_size = 64
    plan, plans = world.choice.plan, []
    world.choice.plan = lambda batch: plans.append(plan(batch)) or plans[-1]
    world.write(400)
    assert {level for both in plans for level in both} <= {0, 1}
    assert max(plan(Batch((0,), (63,), ()))) <= 1, (
        "a graph of 64 slots runs for the last one alone, too"
    )


def test_logits_processors_know_no_trees():
    batch, choice = Batch((0,), (0,), (), processed=(0,)), LevelChoice(TREE)
    assert choice.plan(batch) == (0, 0) == choice.plan(batch)
    assert choice.plan(replace(batch, processed=())).verified == 0


@pytest.mark.parametrize("layout", [K, WITH_FORCED, TREE])
def test_prompts_do_not_wait_for_requests_that_are_never_timed(layout):
    batch, choice = Batch((0,), (0,), (), processed=(0,)), LevelChoice(layout)
    for number in range(20):
        launched = choice.choose(batch)
        choice.take(committed(launched, [1], number))
    assert choice.mixes


def test_requests_that_have_ended_are_forgotten():
    batch, choice = Batch((7,), (0,), ()), LevelChoice(K)
    late = choice.choose(batch)
    choice.forget(Request(RequestSpec(7, [1], SamplingParams())))
    choice.take(committed(late, [2], 1.0))
    assert not choice._rates.acceptances


def test_trials_come_less_often_and_take_a_share_of_the_time():
    trials, begun = LevelTrials(3), []
    for number in range(1, 201):
        trials.tick()
        trials.earn(1.0)
        if trials.begin(2, cost_s=0.0, is_above=True):
            begun.append(number)
    assert begun == [8, 16, 32, 64, 128, 192]
    assert trials.begin(1, cost_s=1.0, is_above=False)
    assert not trials.begin(0, cost_s=1.0, is_above=False), "1.6 s were earned"
    trials.pay_back(1)
    assert not trials.begin(0, cost_s=1.0, is_above=False), "all begin anew"
    for _ in range(8):
        trials.tick()
    assert trials.begin(0, cost_s=1.0, is_above=False)


def test_times_of_other_batches_stand_in():
    times = LevelTimes()
    assert times.seconds(1, 0) is None
    for seconds in (9.0, 1.0, 1.1):  # the first has a graph captured
        times.add(1, 0, seconds)
        times.add(2, 1, 2.0)
        times.add(2, 0, 1.5)
    assert times.seconds(1, 0) == 1.1 and times.seconds(1, 1) == pytest.approx(2.0 * 1.1 / 1.5)
    assert times.seconds(16, 1) == 2.0
