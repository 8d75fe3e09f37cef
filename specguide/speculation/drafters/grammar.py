"""Owns drafting by the grammar alone: what it forces, the walk itself finds."""

from __future__ import annotations

from specguide.drafts.methods import method_named
from specguide.speculation.drafters.base import DrafterSpec

DRAFTER = DrafterSpec(method_named("grammar"))
