"""Owns which lookup finds the drafts of a method that has no model."""

from __future__ import annotations

from specguide import native
from specguide.config import SpecConfig

_SUFFIX_DEPTH = 16  # tokens
_MOST_SUFFIX_NODES = 1 << 20  # some 60 MB
_LEAST_PROBABILITY = 0.1


def lookup_source(spec: SpecConfig) -> native.LookupSource | None:
    """None where nothing is looked up."""
    if spec.method == "ngram":
        return native.NgramSource(min_n=spec.prompt_lookup_min, max_n=spec.prompt_lookup_max)
    if spec.method == "suffix":
        return native.SuffixSource(
            max_depth=_SUFFIX_DEPTH,
            max_nodes=_MOST_SUFFIX_NODES,
            least_probability=_LEAST_PROBABILITY,
        )
    return None
