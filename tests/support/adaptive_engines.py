"""Engines that choose how much an iteration drafts."""

from __future__ import annotations

from proposals import METHODS

from specguide import LLM, SpecConfig
from specguide.drafts.tree import DynamicTree


def make(folders, method: str, **options) -> LLM:
    target, head = folders
    model = {
        "eagle3": head,
        "eagle3 and grammar": head,
        "draft model and grammar": target,
        "tree": head,
        "draft model's tree": target,
    }.get(method)
    return LLM(target, spec=SpecConfig(model=model, adaptive=True, **SPECS[method]), **options)


SPECS = {
    "eagle3": dict(num_draft_tokens=3),
    "tree": dict(tree=DynamicTree(5, 5, 30)),
    "draft model's tree": dict(method="draft_model", tree=DynamicTree(4, 4, 20)),
    **METHODS,
}
