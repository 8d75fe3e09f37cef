"""Owns the drafting methods, each in its own file. The engine knows a method only by its registry
entry."""

from specguide.speculation.drafters import draft_model, eagle3, grammar, mtp, ngram, peagle, suffix
from specguide.speculation.drafters.base import (
    NO_DRAFTER,
    DrafterSpec,
    DraftNeeds,
    DraftTarget,
    drafter_named,
    keys_of,
    register,
)

for _entry in (eagle3, peagle, mtp, draft_model, ngram, suffix, grammar):
    register(_entry.DRAFTER)

__all__ = [
    "NO_DRAFTER",
    "DraftNeeds",
    "DraftTarget",
    "DrafterSpec",
    "drafter_named",
    "keys_of",
    "register",
]
