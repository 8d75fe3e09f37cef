"""Owns what the baselines refuse."""

from __future__ import annotations

from specguide.draft_window import DraftWindow
from specguide.errors import InvalidParams


def check_chains(window: DraftWindow, who: str) -> None:
    """Raise InvalidParams for drafts that are no chains of a draft head or model."""
    if window.has_proposals or window.tree:
        raise InvalidParams(
            f"{who} chains of a draft head or model alone: no tree, forced tokens or lookups",
            param="spec",
        )
