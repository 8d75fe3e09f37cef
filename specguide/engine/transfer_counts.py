"""Owns what is counted of the pages that move between engines."""

from __future__ import annotations

TRANSFERS = {
    "requests": "Prompts that another engine was asked for, or that others asked for",
    "pages": "KV pages received or sent",
    "bytes": "Bytes of KV pages received or sent",
    "seconds": "Time from the question to its last page, summed over prompts",
    "fallbacks": "Prompts whose pages were refused, late or lost",
}
"""What each count means."""


def no_transfers() -> dict[str, float]:
    """The counts of an engine that has just started."""
    return dict.fromkeys(TRANSFERS, 0)
