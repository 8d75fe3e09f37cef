"""Owns the check of drafts that the baselines cannot follow."""

from __future__ import annotations

from specguide.drafts.layout import DraftLayout
from specguide.errors import InvalidParams


def check_chains(layout: DraftLayout, who: str) -> None:
    """Raise InvalidParams for drafts that are no chains of a draft head or model."""
    if layout != DraftLayout.chain(layout.num_model):
        raise InvalidParams(
            f"{who} chains of a draft head or model alone: no tree, forced tokens or lookups",
            param="spec",
        )
