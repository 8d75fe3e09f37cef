"""Owns the outline of a Lark grammar: a grammar of the same texts, with JSON Schemas written as
rules."""

from __future__ import annotations

from collections.abc import Mapping

from specguide.errors import InvalidGuide
from specguide.guided.backend import Outline
from specguide.guided.backends.llguidance.capabilities import LLGUIDANCE
from specguide.guided.backends.llguidance.json_in_lark import JSON_OF_LARK, with_terms
from specguide.guided.backends.llguidance.lark_rules import SchemaRules
from specguide.guided.backends.llguidance.schema_rules import schema_rules
from specguide.guided.backends.llguidance.schema_terminals import NoRules
from specguide.guided.budget import beside
from specguide.guided.schema.core.nodes import CoreSchema
from specguide.guided.schema.cores import core_schemas
from specguide.guided.schema.json_values import Json
from specguide.guided.schema.merging.merge import merge
from specguide.guided.schema.pruning.prune import prune

_MOST_CHARACTERS = 2_000_000
_MOST_STEPS = 1_000_000
_SPECIAL = "<["
"""The beginning of a special token. In the outline, its stand-in may be spelled by bytes too."""


def outline_of(lark: str, core: CoreSchema | None) -> Outline | None:
    """The outline; None where a schema in it has no rules, or takes too many steps.

    core: the core schema, where the grammar is this one schema
    """
    if len(lark) > _MOST_CHARACTERS:
        return None
    if JSON_OF_LARK not in lark:
        return Outline("lark", lark, is_exact=_SPECIAL not in lark)
    try:
        with beside(_MOST_STEPS):
            return Outline("lark", with_terms(lark, lambda _, schema, __: _rules(schema, core)))
    except (InvalidGuide, NoRules, RecursionError):
        return None


def _rules(schema: Mapping[str, Json] | bool, core: CoreSchema | None) -> SchemaRules:
    """The rules of the schema's first form that has any. All that holds at once is merged, as the
    library merges it when it reads the schema."""
    options = schema.get("x-guidance", {}) if isinstance(schema, Mapping) else {}
    for candidate in core_schemas(schema, LLGUIDANCE) if core is None else [core]:
        try:
            merged = prune(merge(candidate, patterns_apart=True, all_orders=True))
            return schema_rules(merged, options.get("whitespace_pattern", ""), is_loose=True)
        except NoRules:
            pass
    raise NoRules
