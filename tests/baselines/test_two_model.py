"""Arrangements that one-model speculation with guided drafts is compared with: the same outputs,
token for token."""

from __future__ import annotations

import pytest
from arrangements import ARRANGEMENTS, generate, make_arranged
from baseline_llm import baseline_llm
from misfits import FAILURES, HOLDING, check_a_failing_matcher, check_a_sleeping_matcher
from random_requests import cases, random_schema

from benchmarks.baselines import TwoModelStep
from specguide import DynamicTree, Guide, GuideConfig, SamplingParams, SpecConfig
from specguide.errors import InvalidParams
from specguide.speculation import OneModelStep

PATIENT = dict(max_batch_size=8, guide=GuideConfig(deadline_us=60_000_000))


@pytest.fixture(
    scope="module",
    params=[dict(), dict(temperature=0.8, top_k=20, top_p=0.95)],
    ids=["greedy", "sampled"],
)
def one_model(folders, request):
    """Prompts, parameters, and what one model outputs and accepts."""
    prompts, all_params = cases(1, 16, **request.param)
    return prompts, all_params, *generate(make_arranged(folders, **PATIENT), prompts, all_params)


@pytest.mark.parametrize("name", ARRANGEMENTS)
def test_outputs_are_those_of_the_one_model_step(folders, one_model, name):
    prompts, all_params, expected, expected_histograms = one_model
    options = ARRANGEMENTS[name]
    baseline = ", ".join(filter(None, [options.get("baseline"), "Python callbacks"]))
    for more in (dict(lag=0), dict(lag=2), dict(lag=0, baseline=baseline)):
        outputs, histograms = generate(
            make_arranged(folders, **{**PATIENT, **options, **more}), prompts, all_params
        )
        assert outputs == expected
        if name == "two models":
            assert histograms == expected_histograms


def test_only_acceptance_falls_where_drafts_are_unguided(folders):
    import random

    prompts, all_params = cases(5, 24)
    rng = random.Random(0)
    all_params = [
        SamplingParams(
            max_tokens=48, guide=Guide(json_schema=random_schema(rng)), allow_truncation=True
        )
        for _ in all_params
    ]
    num_iterations = []
    for guided_drafts in (True, False):
        _, histograms = generate(
            make_arranged(folders, guided_drafts=guided_drafts), prompts, all_params
        )
        num_iterations.append(sum(map(sum, histograms)))
    assert num_iterations[0] < 0.95 * num_iterations[1]


def test_the_baseline_chooses_the_step(folders):
    for baseline, step in ((None, OneModelStep), ("two models", TwoModelStep)):
        llm = make_arranged(folders, baseline=baseline)
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
    check_a_failing_matcher(make_arranged(folders, **ARRANGEMENTS[name]), action, words)


@pytest.mark.parametrize("at", [0, 3])
@pytest.mark.parametrize("name", ARRANGEMENTS)
def test_a_sleeping_matcher_is_held(folders, name, at):
    check_a_sleeping_matcher(make_arranged(folders, guide=HOLDING, **ARRANGEMENTS[name]), at)
