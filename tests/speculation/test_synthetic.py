"""Synthetic acceptance: as many tokens an iteration as asked for, and guided outputs in their
grammar."""

from __future__ import annotations

import re

import pytest

from specguide import LLM, Guide, SamplingParams, SpecConfig
from specguide.errors import InvalidParams

K, WANTED = 3, 2.67


@pytest.fixture(scope="module")
def outputs():
    llm = LLM(spec=SpecConfig(num_draft_tokens=K, synthetic_acceptance=WANTED), max_batch_size=8)
    free = SamplingParams(max_tokens=100, ignore_eos=True)
    guided = SamplingParams(max_tokens=100, guide=Guide(regex="([a-d]{3}-){20}"))
    params = [free, guided] * 8
    return llm.generate(["The bridge in Riga"] * len(params), params)


def test_so_many_tokens_an_iteration(outputs):
    free = outputs[::2]
    tokens = sum(len(out.token_ids) - 1 for out in free)
    iterations = sum(sum(out.metrics.accepted_histogram) for out in free)
    assert all(len(out.token_ids) == 100 for out in free)
    assert abs(tokens / iterations - WANTED) < 0.12


def test_guided_outputs_stay_in_their_grammar(outputs):
    for out in outputs[1::2]:
        assert out.finish_reason == "stop" and re.fullmatch("([a-d]{3}-){20}", out.text)


def test_one_token_an_iteration_where_nothing_is_to_be_accepted():
    llm = LLM(spec=SpecConfig(num_draft_tokens=K, synthetic_acceptance=1.0))
    (out,) = llm.generate(["The bridge in Riga"], SamplingParams(max_tokens=20, ignore_eos=True))
    assert sum(out.metrics.accepted_histogram[1:]) == 0


@pytest.mark.parametrize(
    "options",
    [
        {"synthetic_acceptance": 0.5},
        {"synthetic_acceptance": K + 1.1},
        {"method": "ngram"},
        {"method": "auto"},
        {"num_forced_tokens": 2},
        {"adaptive": True},
    ],
)
def test_what_has_none(options):
    with pytest.raises(InvalidParams, match="synthetic_acceptance"):
        SpecConfig(**{"num_draft_tokens": K, "synthetic_acceptance": WANTED, **options})
