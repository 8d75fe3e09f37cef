"""Choices of speculation that requests may make, and a check of outputs against them."""

from __future__ import annotations

from dataclasses import replace

from specguide import Speculation
from specguide.drafts.layout import DraftLayout

CHOICES = [
    None,
    Speculation(),
    Speculation(0, 0),
    Speculation(0),
    Speculation(1),
    Speculation(2, 0),
    Speculation(guided_drafts=False),
    Speculation(1, 1, guided_drafts=True),
]


def fitting(layout: DraftLayout) -> list[Speculation | None]:
    return [
        choice
        and replace(
            choice,
            num_draft_tokens=_at_most(
                choice.num_draft_tokens, layout.num_model + layout.num_lookup
            ),
            num_forced_tokens=_at_most(choice.num_forced_tokens, layout.num_forced),
        )
        for choice in CHOICES
    ]


def _at_most(number: int | None, most: int) -> int | None:
    return None if number is None else min(number, most)


def check_choice(out, choice: Speculation | None, layout: DraftLayout) -> None:
    """Check that nothing was drafted beyond the request's limits."""
    chosen = layout.within(choice or Speculation())
    assert all(len(iteration.drafts) <= chosen.num_drafts for iteration in out.iterations)
    assert all(not count for count in out.metrics.accepted_histogram[chosen.num_drafts + 1 :])
    assert sum(out.metrics.accepted_histogram) == out.metrics.num_iterations
    names = {"forced"} if chosen.num_forced else set()
    names |= {"model"} if chosen.num_model else set()
    assert set(out.metrics.drafts_proposed) <= names | ({"lookup"} if chosen.num_lookup else set())
