"""The modes that the iteration benchmark compares: ways to decode, by name."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace

from benchmarks.baselines import BASELINES
from benchmarks.models.llama_8b import QUANTIZED
from specguide.config import SpecConfig
from specguide.drafts.layout import NO_DRAFTS, DraftLayout
from specguide.drafts.tree import SMALL_TREE, DynamicTree
from specguide.engine.setup.parts import EngineParts

K = 3
TREES = (SMALL_TREE, DynamicTree(8, 5, 32), DynamicTree())
WINDOWS = (4, 8, 16)
"""Numbers of drafts that are verified: K and forced ones, only forced ones, or looked-up ones."""


@dataclass(frozen=True)
class Mode:
    """One row of the table.

    spec:         None decodes plainly
    guided_share: of the batch
    callbacks:    as in GuideConfig
    baseline:     of BASELINES; None: the engine itself
    has_guides:   False: the engine is built without, and has nothing of the grammar in its graphs
    format:       of QUANTIZED, in which the target's and the head's weights are held; None: bf16
    cache:        what keys and values are held in, as in CacheConfig.kv_cache_dtype
    """

    name: str
    spec: SpecConfig | None
    guided_share: float
    callbacks: str | None = None
    baseline: str | None = None
    has_guides: bool = True
    format: str | None = None
    cache: str = "auto"

    @property
    def has_grammar(self) -> bool:
        """Whether any request is guided."""
        return self.has_guides and self.guided_share > 0

    @property
    def parts(self) -> EngineParts:
        """The parts of which the engine is built."""
        return BASELINES[self.baseline] if self.baseline else EngineParts()

    @property
    def layout(self) -> DraftLayout:
        """The layout of an iteration's drafts."""
        return self.spec.layout if self.spec else NO_DRAFTS


def _quantized(name: str, spec: SpecConfig) -> list[Mode]:
    return [
        Mode(f"{name} grammarless", spec, 0, has_guides=False, format=name),
        Mode(f"{name} guided", spec, 1, format=name),
        Mode(f"{name} 20 % guided", spec, 0.2, format=name),
        Mode(f"{name} plain guided", None, 1, format=name),
        Mode(f"{name} tree 16", SpecConfig(tree=DynamicTree(8, 4, 16)), 1, format=name),
    ]


def _with_fp8_cache(spec: SpecConfig, form: str | None = None) -> list[Mode]:
    """Modes with keys and values in fp8. form: format of the weights; None: bf16"""
    name = f"{form} with fp8 cache" if form else "fp8 cache"
    return [
        Mode(f"{name} grammarless", spec, 0, has_guides=False, format=form, cache="fp8"),
        Mode(f"{name} guided", spec, 1, format=form, cache="fp8"),
        Mode(f"{name} plain guided", None, 1, format=form, cache="fp8"),
        Mode(f"{name} tree 60", SpecConfig(tree=DynamicTree()), 1, format=form, cache="fp8"),
    ]


def _windows(name: str, spec: SpecConfig, sizes: Iterable[int]) -> list[Mode]:
    """Modes of a drafter with forced tokens, one for each window size."""
    return [Mode(f"{name} {size}", replace(spec, num_forced_tokens=size - K), 1) for size in sizes]


def modes() -> dict[str, Mode]:
    """All modes by name."""
    spec = SpecConfig(num_draft_tokens=K)
    every = [
        Mode("grammarless", spec, 0, has_guides=False),
        Mode("unguided", spec, 0),
        Mode("guided", spec, 1),
        Mode("20 % guided", spec, 0.2),
        Mode("plain unguided", None, 0),
        Mode("plain guided", None, 1),
        Mode("host functions", spec, 1, callbacks="native"),
        Mode("Python callbacks", spec, 1, baseline="Python callbacks"),
        Mode("drafts unguided", replace(spec, guided_drafts=False), 1),
        Mode("two models", spec, 1, baseline="two models"),
        Mode("two models unguided", spec, 0, baseline="two models"),
        *_windows("window", spec, WINDOWS),
        *_windows("mtp window", replace(spec, method="mtp"), (K, *WINDOWS)),
        *_windows("draft model window", replace(spec, method="draft_model"), (K, *WINDOWS)),
        *(
            Mode(f"grammar {size}", SpecConfig("grammar", num_forced_tokens=size), 1)
            for size in WINDOWS
        ),
        *(Mode(f"ngram {size}", SpecConfig("ngram", num_draft_tokens=size), 1) for size in WINDOWS),
        *(
            Mode(f"suffix {size}", SpecConfig("suffix", num_draft_tokens=size), 1)
            for size in WINDOWS
        ),
        *(Mode(f"tree {tree.num_nodes}", SpecConfig(tree=tree), 1) for tree in TREES),
        *(
            Mode(f"{method.replace('_', ' ')} tree 60", SpecConfig(method, tree=DynamicTree()), 1)
            for method in ("mtp", "draft_model")
        ),
        Mode("tree 60 unguided", SpecConfig(tree=DynamicTree()), 0),
        *(mode for name in QUANTIZED for mode in _quantized(name, spec)),
        *(mode for form in (None, "fp8") for mode in _with_fp8_cache(spec, form)),
    ]
    return {mode.name: mode for mode in every}


def modes_named(names: str) -> list[Mode]:
    """The modes of a comma-separated list, or all for "all"; exits if there is no such mode."""
    known = modes()
    chosen = list(known) if names == "all" else names.split(",")
    if unknown := [name for name in chosen if name not in known]:
        sys.exit(f"there is no mode {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[name] for name in chosen]
