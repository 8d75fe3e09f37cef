"""Engines with drafts that the host proposes, and what an engine without drafts outputs."""

from __future__ import annotations

from functools import lru_cache

from random_requests import cases
from tiny_engine import K, generate, told

from specguide import LLM, GuideConfig, SpecConfig

METHODS = {
    "grammar": dict(method="grammar", num_forced_tokens=8),
    "grammar by one": dict(method="grammar", num_forced_tokens=1),
    "eagle3 and grammar": dict(num_draft_tokens=K, num_forced_tokens=8),
    "draft model and grammar": dict(method="draft_model", num_draft_tokens=K, num_forced_tokens=8),
    "ngram": dict(method="ngram", num_draft_tokens=4, prompt_lookup_min=1),
    "ngram and grammar": dict(method="ngram", num_draft_tokens=4, num_forced_tokens=5),
    "suffix": dict(method="suffix", num_draft_tokens=6),
    "suffix and grammar": dict(method="suffix", num_draft_tokens=6, num_forced_tokens=26),
}


def make(folders, method: str | None, **options) -> LLM:
    target, head = folders
    if method is None:
        return LLM(target, spec=None, **options)
    model = {"eagle3 and grammar": head, "draft model and grammar": target}.get(method)
    return LLM(target, spec=SpecConfig(**{"model": model} | METHODS[method]), **options)


@lru_cache
def plain_outputs(folders, backend: str, temperature: float):
    """Outputs without drafts, and their prompts and parameters; some prompts repeat themselves, for
    lookups."""
    params = dict(temperature=temperature, top_k=20, top_p=0.95) if temperature else {}
    prompts, all_params = cases(1, 14, **params)
    prompts = [prompt * (1 + number % 4) for number, prompt in enumerate(prompts)]
    llm = make(folders, None, max_batch_size=8, guide=GuideConfig(backend=backend))
    return prompts, all_params, told(generate(llm, prompts, all_params))
