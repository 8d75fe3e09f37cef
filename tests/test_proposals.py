"""Drafts that the host proposes, forced or looked up: they change how many iterations it takes and nothing else."""

from __future__ import annotations

import random

import pytest
from test_engine import Scripted, cases, random_schema, with_misfit

from specguide import LLM, Guide, GuideConfig, SamplingParams, SpecConfig
from specguide.errors import InvalidParams, MatcherError

K = 3
METHODS = {
    "grammar": dict(method="grammar", num_forced_tokens=8),
    "grammar by one": dict(method="grammar", num_forced_tokens=1),
    "eagle3 and grammar": dict(num_draft_tokens=K, num_forced_tokens=8),
    "ngram": dict(method="ngram", num_draft_tokens=4, prompt_lookup_min=1),
    "ngram and grammar": dict(method="ngram", num_draft_tokens=4, num_forced_tokens=5),
    "suffix": dict(method="suffix", num_draft_tokens=6),
    "suffix and grammar": dict(method="suffix", num_draft_tokens=6, num_forced_tokens=26),
}


def make(folders, method: str | None, **options) -> LLM:
    target, head = folders
    if method is None:
        return LLM(target, spec=None, **options)
    model = head if "eagle3" in method else None
    return LLM(target, spec=SpecConfig(model=model, **METHODS[method]), **options)


def generate(llm: LLM, prompts, params):
    outs = llm.generate(prompts, params)
    llm._engine.check_integrity()
    llm.close()
    return outs


def told(outs):
    return [(out.token_ids, out.finish_reason, out.error) for out in outs]


@pytest.mark.parametrize("params", [dict(), dict(temperature=0.8, top_k=20, top_p=0.95)], ids=["greedy", "sampled"])
@pytest.mark.parametrize("method", METHODS)
def test_proposals_change_no_token(folders, method, params):
    prompts, all_params = cases(1, 40, **params)
    plain = generate(make(folders, None, max_batch_size=8), prompts, all_params)
    for options in (dict(lag=0), dict(lag=2), dict(lag=1, guide=GuideConfig(backend="xgrammar"))):
        outs = generate(make(folders, method, max_batch_size=8, **options), prompts, all_params)
        if "guide" not in options:
            assert told(outs) == told(plain)
        else:
            plain = generate(make(folders, None, max_batch_size=8, **options), prompts, all_params)
            assert told(outs) == told(plain)
        assert any(out.metrics.acceptance_length > 1.3 for out in outs)
