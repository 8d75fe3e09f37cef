"""The tiny target with its EAGLE3 head as an LLM, and what an LLM outputs."""

from __future__ import annotations

from specguide import LLM, SpecConfig
from specguide.engine import Engine

K = 3


def make(folders, *, spec: bool = True, **options) -> LLM:
    target, head = folders
    return LLM(target, spec=SpecConfig(model=head, num_draft_tokens=K) if spec else None, **options)


def generate(llm: LLM, prompts, params):
    """All outputs; the engine is closed."""
    outs = llm.generate(prompts, params)
    llm._engine.check_integrity()
    llm.close()
    return outs


def is_clean(engine: Engine) -> bool:
    """Whether no request is left, and all pages are free."""
    engine.check_integrity()
    return engine.num_unfinished == 0 and engine._pages.num_free == engine._pages.num_pages


def told(outs):
    """What speculation must not change."""
    return [(out.token_ids, out.finish_reason, out.error) for out in outs]
