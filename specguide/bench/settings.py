"""Owns the settings that the acceptance benchmark compares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from specguide.config import MODELLESS_METHODS, SpecConfig

PLAIN = "plain"

Tokens = dict[str, tuple[int, ...]]
"""Of each task's output."""


@dataclass(frozen=True)
class Setting:
    """One way to decode a data set.

    drafter:       "plain", or a method of SpecConfig
    num_forced:    F, forced drafts
    guided_drafts: as in SpecConfig
    backend:       as in GuideConfig
    concurrency:   requests at once
    """

    set_name: str
    drafter: str
    num_forced: int
    guided_drafts: bool
    backend: str
    concurrency: int

    def spec(self, num_draft_tokens: int) -> SpecConfig | None:
        """None decodes plainly."""
        if self.drafter == PLAIN:
            return None
        return SpecConfig(self.drafter, num_draft_tokens=num_draft_tokens, num_forced_tokens=self.num_forced,
                          guided_drafts=self.guided_drafts)


def settings(sets: Sequence[str], drafters: Sequence[str], forced: Sequence[int], guided: Sequence[bool],
             backends: Sequence[str], concurrencies: Sequence[int]) -> Iterator[Setting]:
    """All that make sense, each data set's plain decoding first: the others' outputs are compared with it.

    Unguided drafts are those of a model, and then none are forced; "grammar" has nothing but forced ones.
    """
    for name, backend, concurrency in product(sets, backends, concurrencies):
        yield Setting(name, PLAIN, 0, True, backend, concurrency)
        for drafter, is_guided, num_forced in product(drafters, guided, forced):
            if not is_guided and (num_forced or drafter in MODELLESS_METHODS):
                continue
            if drafter == "grammar" and not num_forced:
                continue
            yield Setting(name, drafter, num_forced, is_guided, backend, concurrency)
