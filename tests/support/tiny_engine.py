"""The tiny target with its EAGLE3 head as an LLM."""

from __future__ import annotations

from specguide import LLM, SpecConfig

K = 3


def make(folders, *, spec: bool = True, **options) -> LLM:
    target, head = folders
    return LLM(target, spec=SpecConfig(model=head, num_draft_tokens=K) if spec else None, **options)
