"""Owns drafting by prompt lookup: the drafts are the tokens that followed the last few tokens at
their latest earlier place in the request's text."""

from __future__ import annotations

from specguide import native
from specguide.config import SpecConfig
from specguide.drafts.methods import method_named
from specguide.speculation.drafters.base import DrafterSpec


def _lookup(spec: SpecConfig) -> native.LookupSource:
    return native.NgramSource(min_n=spec.prompt_lookup_min, max_n=spec.prompt_lookup_max)


DRAFTER = DrafterSpec(method_named("ngram"), lookup=_lookup)
