"""Chunks of prompts beside decode iterations: no output depends on them."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from staggered import SPECS, asked, engine_of, run, told

from specguide import SamplingParams
from specguide.config import CacheConfig
from specguide.piggyback import PiggybackLimits
from specguide.speculation.prefill_plan import PIGGYBACK_LIMITS


@pytest.fixture(scope="module")
def expected():
    """Outputs without drafts, of prompts in iterations of their own."""
    apart, seen = engine_of(None, max_prefill_tokens=24, mixed_iterations=False)
    outputs = list(map(told, run(apart, asked(12))))
    assert not seen.chunks and not seen.num_starts
    apart.close()
    return outputs


@pytest.mark.parametrize(("mode", "lag"), list(zip(SPECS, cycle([0, 2, 1]))))
def test_outputs_are_those_of_prompts_on_their_own(expected, mode, lag):
    mixed, watch = engine_of(SPECS[mode], lag=lag, max_prefill_tokens=24)
    assert list(map(told, run(mixed, asked(12)))) == expected
    assert len(watch.chunks) > 5 and watch.num_starts > 5 and max(watch.chunks) <= 24
    mixed.close()


@pytest.mark.parametrize("mode", ["plain", "eagle3"])
def test_drafts_are_as_good_behind_prompts_that_rode(mode):
    """The drafter's keys of a prompt are those of a prefill, so it proposes the same."""
    (mixed, watch), (apart, _) = (
        engine_of(SPECS[mode], mixed_iterations=mixed) for mixed in (True, False)
    )
    requests = [(text, SamplingParams(max_tokens=20, seed=1)) for text, _ in asked(6)]
    accepted = [
        [sum(at * count for at, count in enumerate(one.metrics.accepted_histogram)) for one in many]
        for many in (run(mixed, requests), run(apart, requests))
    ]
    assert watch.num_starts > 3
    assert abs(sum(accepted[0]) - sum(accepted[1])) <= len(requests)
    mixed.close()
    apart.close()


def test_few_pages_and_requests_that_leave(expected):
    engine, watch = engine_of(
        SPECS["eagle3"], cache=CacheConfig(page_size=4, num_pages=60), max_prefill_tokens=16, lag=1
    )
    added = []
    for at, (text, params) in enumerate(asked(10)):
        added.append(engine.add(engine.prompt_ids(text), params))
        engine.step()
        if at % 3 == 2:
            other = engine.add(engine.prompt_ids(text * 2), params)
            engine.step()
            engine.cancel(other)
    while engine.num_unfinished:
        engine.step()
    engine.check_integrity()
    assert [told(one) for one in added] == expected[:10]
    assert watch.chunks and watch.num_starts
    engine.close()


def test_prompts_that_are_scored_have_iterations_of_their_own():
    engine, watch = engine_of(None)
    requests = [(text, replace(params, guide=None, prompt_logprobs=1)) for text, params in asked(5)]
    outputs = run(engine, requests)
    assert not watch.chunks
    assert all(len(one.prompt_logprobs) == len(one.prompt_ids) for one in outputs)
    engine.close()


def test_one_token_and_a_prompt_in_the_cache():
    engine, watch = engine_of(None)
    text = "Maria is 34 and lives in Lyon. " * 4
    params = SamplingParams(max_tokens=12)
    alone = told(run(engine, [(text, params)])[0])
    first = engine.add(engine.prompt_ids("Once upon a time"), SamplingParams(max_tokens=40))
    engine.step()
    one = engine.add(engine.prompt_ids("x")[:1], params)
    again = engine.add(engine.prompt_ids(text), params)
    while engine.num_unfinished:
        engine.step()
    assert told(again) == alone and again.metrics.num_cached > 8
    assert len(one.output_ids) == 12 and len(first.output_ids) == 40
    assert watch.num_starts == 2
    engine.close()


sizes = st.lists(st.integers(1, 300), min_size=1, max_size=6, unique=True).map(sorted).map(tuple)


@given(sizes, st.integers(1, 2000), st.integers(1, 2000))
def test_sizes_of_what_is_beside(sizes, num_waiting, budget):
    limits = PiggybackLimits(16, sizes)
    most = limits.most_tokens(budget)
    num_tokens = min(most, limits.filled(num_waiting))
    assert 1 <= num_tokens <= min(num_waiting, max(budget, sizes[0]))
    assert num_tokens <= limits.size_for(num_tokens) <= max(sizes[-1], num_tokens)
    assert budget < sizes[0] or limits.size_for(num_tokens) <= budget


@given(st.integers(1, 2000), st.integers(1, 2000))
def test_without_sizes_all_that_the_budget_allows(num_waiting, budget):
    limits = PiggybackLimits(16)
    assert min(limits.most_tokens(budget), limits.filled(num_waiting)) == min(num_waiting, budget)


@given(st.integers(0, 199), st.integers(1, 17), st.integers(1, 2048))
def test_sizes_fill_tiles_with_the_rows_that_decode(highest_slot, nodes_each, num_tokens):
    limits = replace(PIGGYBACK_LIMITS, max_slots=200, nodes_each=nodes_each)
    num_slots = limits.num_slots(highest_slot)
    assert highest_slot < num_slots <= 200
    beside = limits.beside(highest_slot)
    assert list(beside.sizes) == sorted(set(beside.sizes))
    filled = beside.size_for(num_tokens)
    rows = num_slots * nodes_each + filled
    assert filled >= num_tokens and (rows % 128 == 0 or filled == 2048)


@given(st.integers(0, 199), st.integers(1, 8), st.floats(0, 4000))
def test_the_nearest_size(highest_slot, nodes_each, num_tokens):
    beside = replace(PIGGYBACK_LIMITS, max_slots=200, nodes_each=nodes_each).beside(highest_slot)
    nearest = beside.nearest(num_tokens)
    assert nearest in beside.sizes
    assert all(abs(nearest - num_tokens) <= abs(size - num_tokens) for size in beside.sizes)
