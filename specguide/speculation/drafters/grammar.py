"""Owns drafting by the grammar alone. The grammar's walk finds the forced tokens, so there is
nothing more to run."""

from __future__ import annotations

from specguide.drafts.methods import method_named
from specguide.speculation.drafters.base import DrafterSpec

DRAFTER = DrafterSpec(method_named("grammar"))
