"""Arrangements that one-model speculation with guided drafts is compared with."""

from __future__ import annotations

from baseline_llm import baseline_llm
from tiny_engine import K, told

from specguide import LLM, SpecConfig

ARRANGEMENTS = {
    "two models": dict(baseline="two models"),
    "drafts unguided": dict(guided_drafts=False),
    "both": dict(baseline="two models", guided_drafts=False),
}


def make_arranged(folders, *, guided_drafts: bool = True, **options) -> LLM:
    """options: those of `baseline_llm`"""
    target, head = folders
    spec = SpecConfig(model=head, num_draft_tokens=K, guided_drafts=guided_drafts)
    return baseline_llm(target, spec=spec, **options)


def generate(llm: LLM, prompts, params):
    """Outputs, which must agree, and histograms of accepted drafts."""
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
    return told(outs), histograms
