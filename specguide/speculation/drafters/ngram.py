"""Owns drafting by prompt lookup: what followed the last tokens when they were in the request's
text most recently."""

from __future__ import annotations

from specguide import native
from specguide.config import SpecConfig
from specguide.drafts.methods import method_named
from specguide.speculation.drafters.base import DrafterSpec


def _lookup(spec: SpecConfig) -> native.LookupSource:
    return native.NgramSource(min_n=spec.prompt_lookup_min, max_n=spec.prompt_lookup_max)


DRAFTER = DrafterSpec(method_named("ngram"), lookup=_lookup)
