"""Owns the rules of a core schema, where they must be merged first: the library and the ends of its
texts are told the same then."""

from __future__ import annotations

from specguide.errors import UnsupportedGuide
from specguide.guided.backends.llguidance.capabilities import LLGUIDANCE
from specguide.guided.backends.llguidance.lark_rules import SchemaRules
from specguide.guided.backends.llguidance.schema_rules import schema_rules
from specguide.guided.backends.llguidance.schema_terminals import NoRules
from specguide.guided.backends.llguidance.simple_nodes import must_merge
from specguide.guided.budget import beside
from specguide.guided.schema.core.enforce import unenforced
from specguide.guided.schema.core.nodes import CoreSchema
from specguide.guided.schema.merging.merge import merge
from specguide.guided.schema.pruning.prune import prune

_MOST_STEPS = 300_000
_ABLE = LLGUIDANCE.with_guard()


def core_rules(core: CoreSchema, whitespace: str) -> SchemaRules:
    """A core schema as rules of Lark. Where it has none, what holds at once is merged, which the
    library would do as it reads: keys have the same order.

    whitespace: a regular expression, "" for none

    Raises NoRules.
    """
    if core.tracked is not None:
        return schema_rules(core, whitespace)
    if not must_merge(core):
        try:
            return schema_rules(core, whitespace)
        except NoRules:
            pass
    try:
        with beside(_MOST_STEPS):
            return _merged_rules(core, whitespace)
    except UnsupportedGuide as error:
        why = error
    except (RecursionError, NoRules):
        return schema_rules(core, whitespace)  # which says why not
    try:
        return schema_rules(core, whitespace)
    except NoRules as error:
        raise NoRules(error.keyword, why) from None


def _merged_rules(core: CoreSchema, whitespace: str) -> SchemaRules:
    """Raises NoRules, and UnsupportedGuide where merging is too much work."""
    try:
        return schema_rules(_merged(core, patterns_apart=True), whitespace)
    except NoRules as error:
        if error.keyword:
            raise
        # What several patterns have in common may be nothing.
        return schema_rules(_merged(core, patterns_apart=False), whitespace)


def _merged(core: CoreSchema, *, patterns_apart: bool) -> CoreSchema:
    merged = prune(merge(core, patterns_apart=patterns_apart))
    doubt = next(unenforced(merged, _ABLE), None)
    if doubt is not None:
        raise NoRules(doubt.keyword)
    return merged
