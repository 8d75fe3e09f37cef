"""Owns the settings that the acceptance benchmark compares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from specguide.config import SpecConfig
from specguide.drafts.methods import AUTO, method_named, method_names
from specguide.drafts.tree import CHAIN, SMALL_TREE, DynamicTree

PLAIN = "plain"
UNGUIDED = "unguided"
"""Plain decoding without the grammar, to see what the model does by itself."""

_TREES: dict[str, dict[str, Any]] = {
    "tree": {"tree": DynamicTree()},
    "small_tree": {"tree": SMALL_TREE},
    "adaptive_tree": {"tree": DynamicTree(), "adaptive": True},
}
DRAFTERS: dict[str, dict[str, Any]] = {
    method: {"method": method} for method in method_names() if method != AUTO
} | {
    f"{method}_{name}": {"method": method, **options}
    for method in ("eagle3", "mtp", "draft_model")
    for name, options in _TREES.items()
}
"""The fields of SpecConfig that make each drafter; fields that all share are in the Setting."""

Tokens = dict[str, tuple[int, ...]]
"""The token ids of each task's output, by the task's name."""


@dataclass(frozen=True)
class Setting:
    """One way to decode a data set.

    drafter:          "plain", "unguided", or one of DRAFTERS
    num_draft_tokens: K, as in SpecConfig; 0 if the drafter has none
    num_forced:       F, forced drafts
    guided_drafts:    as in SpecConfig
    backend:          as in GuideConfig
    concurrency:      requests at once
    """

    set_name: str
    drafter: str
    num_draft_tokens: int
    num_forced: int
    guided_drafts: bool
    backend: str
    concurrency: int

    def spec(self, heads: Mapping[str, Path]) -> SpecConfig | None:
        """None for plain decoding. heads: folder of a method's head or small model, if it is not
        the shipped one"""
        if self.drafter in (PLAIN, UNGUIDED):
            return None
        options = DRAFTERS[self.drafter]
        return SpecConfig(
            **options,
            model=heads.get(options["method"]),
            num_draft_tokens=self.num_draft_tokens or 1,
            num_forced_tokens=self.num_forced,
            guided_drafts=self.guided_drafts,
        )

    @property
    def plain(self) -> Setting:
        """This setting without drafts."""
        return replace(self, drafter=PLAIN, num_draft_tokens=0, num_forced=0, guided_drafts=True)


@dataclass(frozen=True)
class Axes:
    """What is compared: each field lists values for the Setting's field of the same name,
    concurrency in ascending order."""

    drafters: Sequence[str]
    num_draft_tokens: Sequence[int]
    num_forced: Sequence[int]
    guided_drafts: Sequence[bool]
    backends: Sequence[str]
    concurrency: Sequence[int]

    def settings(self, num_tasks: Mapping[str, int]) -> Iterator[Setting]:
        """All combinations that make sense. Plain decoding comes first for each data set, because
        other outputs are compared with it.

        Unguided drafts come from a model, and exclude forced ones. A tree has no forced drafts, and
        a depth of its own. "grammar" has only forced drafts. There are never more requests at once
        than the set has tasks.

        num_tasks: of each data set, by its name
        """
        for name, backend in product(num_tasks, dict.fromkeys(self.backends)):
            loads = [load for load in self.concurrency if load <= num_tasks[name]]
            for load in dict.fromkeys(loads or [num_tasks[name]]):
                plain = Setting(name, PLAIN, 0, 0, True, backend, load)
                yield plain
                if UNGUIDED in self.drafters:
                    yield replace(plain, drafter=UNGUIDED)
                yield from dict.fromkeys(self._drafted(plain))

    def _drafted(self, plain: Setting) -> Iterator[Setting]:
        for drafter, num_drafts, num_forced, is_guided in product(
            [name for name in self.drafters if name != UNGUIDED],
            self.num_draft_tokens,
            self.num_forced,
            self.guided_drafts,
        ):
            method = method_named(DRAFTERS[drafter]["method"])
            shape = DRAFTERS[drafter].get("tree", CHAIN)
            if not is_guided and (num_forced or not method.has_model):
                continue
            if num_forced < method.least_forced or (num_forced and not shape.takes_forced):
                continue
            if num_forced and method.in_one_pass:
                continue
            layout = shape.layout(method.chain(num_drafts, num_forced))
            yield replace(
                plain,
                drafter=drafter,
                num_draft_tokens=layout.num_own,
                num_forced=num_forced,
                guided_drafts=is_guided,
            )
