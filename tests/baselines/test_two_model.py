"""Arrangements that one-model speculation with guided drafts is compared with: the same outputs,
token for token."""

from __future__ import annotations

import pytest
from baseline_llm import baseline_llm
from test_engine import (
    FAILURES,
    K,
    Scripted,
    cases,
    check_a_failing_matcher,
    random_schema,
    with_misfit,
)

from benchmarks.baselines import TwoModelStep
from specguide import LLM, DynamicTree, Guide, GuideConfig, SamplingParams, SpecConfig
from specguide.errors import InvalidParams
from specguide.speculation import OneModelStep

ARRANGEMENTS = {
    "two models": dict(baseline="two models"),
    "drafts unguided": dict(guided_drafts=False),
    "both": dict(baseline="two models", guided_drafts=False),
}


def make(folders, *, guided_drafts: bool = True, **options) -> LLM:
    """options: those of `baseline_llm`"""
    target, head = folders
    spec = SpecConfig(model=head, num_draft_tokens=K, guided_drafts=guided_drafts)
    return baseline_llm(target, spec=spec, **options)


def generate(llm: LLM, prompts, params):
    """Outputs that must agree, and what was accepted in how many iterations."""
    outs = llm.generate(prompts, params)
    llm._engine.check_integrity()
    counters = llm.stats().grammar
    llm.close()
    assert (
        counters["max_fills"] <= K + 1
        and counters["max_accepts"] <= K + 1
        and counters["max_rollbacks"] <= 1
    )
    histograms = [out.metrics.accepted_histogram for out in outs]
    return [(out.token_ids, out.finish_reason, out.error) for out in outs], histograms


@pytest.mark.parametrize(
    "params", [dict(), dict(temperature=0.8, top_k=20, top_p=0.95)], ids=["greedy", "sampled"]
)
@pytest.mark.parametrize("name", ARRANGEMENTS)
def test_outputs_are_those_of_the_one_model_step(folders, name, params):
    prompts, all_params = cases(1, 30, **params)
    patient = dict(max_batch_size=8, guide=GuideConfig(deadline_us=60_000_000))
    expected, expected_histograms = generate(make(folders, **patient), prompts, all_params)
    options = ARRANGEMENTS[name]
    baseline = ", ".join(filter(None, [options.get("baseline"), "Python callbacks"]))
    for more in (dict(lag=0), dict(lag=2), dict(lag=0, baseline=baseline)):
        outputs, histograms = generate(
            make(folders, **{**patient, **options, **more}), prompts, all_params
        )
        assert outputs == expected
        if name == "two models":
            assert histograms == expected_histograms


def test_only_acceptance_falls_where_drafts_are_unguided(folders):
    import random

    prompts, all_params = cases(5, 40)
    rng = random.Random(0)
    all_params = [
        SamplingParams(max_tokens=48, guide=Guide(json_schema=random_schema(rng)))
        for _ in all_params
    ]
    num_iterations = []
    for guided_drafts in (True, False):
        _, histograms = generate(make(folders, guided_drafts=guided_drafts), prompts, all_params)
        num_iterations.append(sum(map(sum, histograms)))
    assert num_iterations[0] < 0.95 * num_iterations[1]


def test_the_baseline_chooses_the_step(folders):
    for baseline, step in ((None, OneModelStep), ("two models", TwoModelStep)):
        llm = make(folders, baseline=baseline)
        assert type(llm._engine._executor.step) is step
        llm.close()


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (dict(tree=DynamicTree()), "knows chains"),
        (dict(num_forced_tokens=2), "knows chains"),
        (dict(method="ngram"), "knows chains"),
        (dict(adaptive=True), "always all"),
    ],
)
def test_what_two_models_cannot_do_is_said(spec, words):
    with pytest.raises(InvalidParams, match=words):
        baseline_llm(None, "two models", spec=SpecConfig(**spec))


@pytest.mark.parametrize(("action", "words"), FAILURES)
@pytest.mark.parametrize("name", ARRANGEMENTS)
def test_a_failing_matcher_ends_its_own_request(folders, action, words, name):
    check_a_failing_matcher(make(folders, **ARRANGEMENTS[name]), action, words)


@pytest.mark.parametrize("at", [0, 3])
@pytest.mark.parametrize("name", ARRANGEMENTS)
def test_a_sleeping_matcher_is_held(folders, name, at):
    prompts, params = ["ab"] * 2, [SamplingParams(max_tokens=60, ignore_eos=True)] * 2
    llm = make(folders, guide=GuideConfig(deadline_us=2000), **ARRANGEMENTS[name])
    alone = llm.generate(prompts, params)
    outs, misfit = with_misfit(llm, Scripted("sleep", at), prompts, params)
    assert [out.token_ids for out in outs] == [out.token_ids for out in alone]
    assert misfit.metrics.num_held > 0 and misfit.error is None and len(misfit.output_ids) == 40
    llm.close()
