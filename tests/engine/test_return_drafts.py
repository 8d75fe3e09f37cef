"""Requests that ask for their drafts: each iteration's are those that its tokens were verified
with."""

from __future__ import annotations

from dataclasses import replace

import pytest
from arrangements import make_arranged
from async_engines import start
from drafted_iterations import asking, check, iterations_of
from misfits import Scripted, with_misfit
from random_requests import cases
from tiny_engine import K, generate, make

from specguide import CacheConfig, GuideConfig, SamplingParams


@pytest.mark.parametrize(
    "params",
    [dict(), dict(temperature=0.8, top_k=20), dict(repetition_penalty=1.3, logprobs=1)],
    ids=["greedy", "sampled", "adjusted"],
)
def test_drafts_belong_to_the_tokens_they_were_verified_with(folders, params):
    prompts, all_params = cases(31, 14, **params)
    engine = dict(
        max_batch_size=8, guide=GuideConfig(deadline_us=60_000_000)
    )  # else some drafts are guesses
    expected = iterations_of(make(folders, **engine), prompts, all_params)
    drafted = [one for iterations in expected for one in iterations if one[0]]
    assert any(accepted == 0 for _, accepted, _ in drafted) and any(
        accepted == K for _, accepted, _ in drafted
    )
    for options in (
        dict(lag=1),
        dict(lag=2),
        dict(baseline="two models"),
        dict(baseline="two models", lag=1),
    ):
        assert (
            iterations_of(make_arranged(folders, **engine, **options), prompts, all_params)
            == expected
        )


def test_without_speculation_there_are_none(folders):
    prompts, params = cases(32, 9)
    for iterations in iterations_of(make(folders, spec=False), prompts, params):
        assert all(one[:2] == ((), 0) and len(one[2]) == 1 for one in iterations)


@pytest.mark.parametrize("lag", [0, 1])
def test_held_iterations_are_told(folders, lag):
    prompts, params = ["ab"] * 2, asking([SamplingParams(max_tokens=60, ignore_eos=True)] * 2)
    llm = make(folders, guide=GuideConfig(deadline_us=2000), lag=lag)
    engine, add = llm._engine, llm._engine.add
    engine.add = lambda ids, params, **rest: add(ids, replace(params, return_drafts=True), **rest)
    for at in (0, 3):
        outs, misfit = with_misfit(llm, Scripted("sleep", at), prompts, params)
        assert misfit.metrics.num_held > 0
        check(misfit.iterations, misfit.output_ids, misfit.metrics)
        for out in outs:
            check(out.iterations, out.token_ids, out.metrics)
    llm.close()


@pytest.mark.parametrize("lag", [0, 1])
def test_requests_that_lose_their_pages_keep_what_they_had(folders, lag):
    prompts, params = cases(33, 12)
    params = [replace(one, guide=None, max_tokens=90, ignore_eos=True) for one in params]
    llm = make(
        folders,
        cache=CacheConfig(page_size=16, num_pages=36),
        max_batch_size=6,
        max_model_len=160,
        lag=lag,
    )
    outs = generate(llm, prompts, asking(params))
    assert sum(out.metrics.num_preemptions for out in outs) > 3
    for out in outs:
        check(out.iterations, out.token_ids, out.metrics)


async def test_streamed_deltas_carry_their_iterations(folders):
    async with start(folders, lag=1) as engine:
        deltas = [
            delta
            async for delta in engine.generate(
                "abc",
                SamplingParams(max_tokens=40, temperature=0.9, seed=1, return_drafts=True),
            )
        ]
        for delta in deltas:
            assert (
                tuple(token for one in delta.iterations for token in one.tokens) == delta.token_ids
            )
        check(
            [one for delta in deltas for one in delta.iterations],
            [token for delta in deltas for token in delta.token_ids],
            deltas[-1].metrics,
        )
        assert all([delta.iterations is None async for delta in engine.generate("abc")])


def test_on_a_cpu_an_iteration_knows_its_grammar_time(folders):
    prompts, params = cases(34, 6)
    llm = make(folders)
    outs = llm.generate(prompts, asking(params))
    for out, param in zip(outs, params, strict=True):
        for one in out.iterations:
            assert 0 <= one.times.grammar_exposed_s <= one.times.end_s - one.times.begin_s
            assert one.times.grammar_s >= 0
        assert param.guide is None or sum(one.times.grammar_s for one in out.iterations) > 0
    assert llm.generate(prompts, params)[0].iterations is None
    llm.close()
