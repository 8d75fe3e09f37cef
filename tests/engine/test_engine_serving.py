"""Many requests, few pages, prompts in chunks: every output is that of the same request alone."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_requests import cases
from tiny_engine import make

from specguide import LLM, GuideConfig, SamplingParams
from specguide.config import CacheConfig

PAGE = 16
PATIENT = GuideConfig(deadline_us=60_000_000)  # a late row would change what is drafted


def serve(llm: LLM, prompts: list[list[int]], params: list[SamplingParams], seed: int) -> list:
    """The requests come at random times and with random priorities; they, in the order of the
    prompts."""
    rng, engine, requests = random.Random(seed), llm._engine, []
    while len(requests) < len(prompts) or engine.num_unfinished:
        for _ in range(rng.choice([0, 0, 1, 3])):
            if len(requests) < len(prompts):
                number = len(requests)
                requests.append(
                    engine.add(prompts[number], params[number], priority=rng.randint(-1, 1))
                )
        engine.step()
        engine.check_integrity()
    return requests


def shared_prompts(seed: int, num: int) -> tuple[list[list[int]], list[SamplingParams]]:
    """Prompts with their parameters; most prompts begin like another one, and some are the same."""
    rng = random.Random(seed)
    texts, params = cases(seed, num, temperature=rng.choice([0.0, 0.8]))
    beginnings = ["".join(rng.choice("abc {}:\n") for _ in range(n)) for n in (0, 15, 16, 33, 100)]
    prompts = [(rng.choice(beginnings) + text * rng.randint(0, 1)) or "a" for text in texts]
    return [list(prompt.encode()) for prompt in prompts], params


@pytest.fixture(scope="module")
def alone(folders):
    llm = make(
        folders, max_batch_size=1, guide=PATIENT, cache=CacheConfig(page_size=PAGE, num_pages=40)
    )
    known = {}

    def output(*case):
        key = repr(case)
        if key not in known:
            known[key] = run_alone(llm, *case)
        return known[key]

    yield lambda prompts, params: [output(*case) for case in zip(prompts, params, strict=True)]
    llm.close()


def run_alone(llm: LLM, prompt: list[int], params: SamplingParams):
    llm.reset_prefix_cache()  # nothing is shared
    return llm.generate([prompt], params)[0]


@pytest.mark.parametrize("spec", [True, False], ids=["speculative", "plain"])
@given(
    seed=st.integers(0, 10**6),
    lag=st.sampled_from([0, 1, 2]),
    num_pages=st.sampled_from([36, 48, 200]),
    max_prefill_tokens=st.sampled_from([7, 40, 2048]),
    max_batch_size=st.sampled_from([3, 8]),
)
@settings(
    max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_outputs_are_those_of_each_request_alone(
    folders, alone, spec, seed, lag, num_pages, max_prefill_tokens, max_batch_size
):
    prompts, params = shared_prompts(seed, 10)
    llm = make(
        folders,
        spec=spec,
        lag=lag,
        max_batch_size=max_batch_size,
        max_prefill_tokens=max_prefill_tokens,
        guide=PATIENT,
        cache=CacheConfig(page_size=PAGE, num_pages=num_pages),
    )
    requests = serve(llm, prompts, params, seed)
    for number, (request, expected) in enumerate(
        zip(requests, alone(prompts, params), strict=True)
    ):
        assert (request.output_ids, request.finish_reason, request.error) == (
            list(expected.token_ids),
            expected.finish_reason,
            None,
        ), number
        if spec and not request.metrics.num_preemptions:  # the drafter has the same keys too
            assert request.metrics.accepted_histogram == expected.metrics.accepted_histogram, number
    assert llm._engine._pages.num_free == num_pages
    llm.close()


@pytest.mark.parametrize("lag", [0, 1, 2])
def test_requests_that_lose_their_pages_go_on_where_they_were(folders, alone, lag):
    prompts, params = shared_prompts(5, 16)
    params = [
        SamplingParams(
            max_tokens=150, seed=n, temperature=0.5, ignore_eos=p.guide is None, guide=p.guide
        )
        for n, p in enumerate(params)
    ]
    llm = make(folders, lag=lag, max_batch_size=8, cache=CacheConfig(page_size=PAGE, num_pages=36))
    requests = serve(llm, prompts, params, 1)
    assert sum(request.metrics.num_preemptions for request in requests) > 3
    for request, expected in zip(requests, alone(prompts, params), strict=True):
        assert (request.output_ids, request.error) == (list(expected.token_ids), None)
    llm.close()


def test_a_prompt_that_many_share_is_computed_once(folders):
    llm = make(folders, max_batch_size=8, cache=CacheConfig(page_size=PAGE, num_pages=400))
    prompt = list((b"a prompt of many words " * 20)[:400])
    prompts = [[*prompt, 48 + number] for number in range(24)]
    requests = [llm._engine.add(one, SamplingParams(max_tokens=8)) for one in prompts]
    while llm._engine.num_unfinished:
        llm._engine.step()
    cached = [request.metrics.num_cached for request in requests]
    assert llm.stats().prefix_hit_rate == sum(cached) / (24 * 401)
    assert cached == [
        0,
        *[384] * 23,
    ]  # of 25 pages the last depends on the token behind it, which differs
    for request, one in zip(requests, prompts, strict=True):
        expected = run_alone(llm, one, SamplingParams(max_tokens=8))
        assert request.output_ids == list(expected.token_ids)
        assert request.metrics.accepted_histogram == expected.metrics.accepted_histogram
    llm.close()
