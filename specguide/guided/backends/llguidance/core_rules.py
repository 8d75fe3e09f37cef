"""Owns the rules of core schemas that must be merged first, so that the library and the search for
ends get the same grammar."""

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
    """A core schema as rules of Lark. Where it has none, all that holds at once is merged first.
    The library would merge it too when it reads the schema: keys keep the same order.

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
        return schema_rules(core, whitespace)  # raises NoRules with the reason
    try:
        return schema_rules(core, whitespace)
    except NoRules as error:
        raise NoRules(error.keyword, why) from None


def _merged_rules(core: CoreSchema, whitespace: str) -> SchemaRules:
    """The rules of the merged schema. Raises NoRules, and UnsupportedGuide where merging takes too
    many steps."""
    try:
        return schema_rules(_merged(core, patterns_apart=True), whitespace)
    except NoRules as error:
        if error.keyword:
            raise
        # Several patterns may have no text in common.
        return schema_rules(_merged(core, patterns_apart=False), whitespace)


def _merged(core: CoreSchema, *, patterns_apart: bool) -> CoreSchema:
    merged = prune(merge(core, patterns_apart=patterns_apart))
    doubt = next(unenforced(merged, _ABLE), None)
    if doubt is not None:
        raise NoRules(doubt.keyword)
    return merged
