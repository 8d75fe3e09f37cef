"""Owns the ways to draft, a file each; an entry in the registry is all that the engine knows of
one."""

from specguide.speculation.drafters import draft_model, eagle3, grammar, mtp, ngram, peagle, suffix
from specguide.speculation.drafters.base import (
    NO_DRAFTER,
    DrafterSpec,
    DraftNeeds,
    DraftTarget,
    KeyShape,
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
    "KeyShape",
    "drafter_named",
    "keys_of",
    "register",
]
