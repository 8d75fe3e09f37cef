"""Owns suffix drafting: the drafts are the tokens that most often followed the longest suffix of
the text that occurred before, in this text or in outputs of earlier requests."""

from __future__ import annotations

from specguide import native
from specguide.config import SpecConfig
from specguide.drafts.methods import method_named
from specguide.speculation.drafters.base import DrafterSpec

_DEPTH = 16  # tokens
_MOST_NODES = 1 << 20  # some 40 MB
_LEAST_PROBABILITY = 0.1


def _lookup(spec: SpecConfig) -> native.LookupSource:
    return native.SuffixSource(
        max_depth=_DEPTH, max_nodes=_MOST_NODES, least_probability=_LEAST_PROBABILITY
    )


DRAFTER = DrafterSpec(method_named("suffix"), lookup=_lookup)
