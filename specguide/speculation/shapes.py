"""Owns which strategy drafts a layout."""

from __future__ import annotations

from specguide.draft_layout import DraftLayout
from specguide.speculation.chains import Chains
from specguide.speculation.drafting import DraftingFactory
from specguide.speculation.proposals import ProposedChains
from specguide.speculation.trees import Trees


def drafting_of(layout: DraftLayout) -> DraftingFactory:
    """Unless its drafter has a strategy of its own."""
    if layout.growth is not None:
        return Trees
    return ProposedChains if layout.has_proposals else Chains
