"""Owns the outline of a Lark grammar: the same texts, with its JSON Schemas written as rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from specguide.errors import InvalidGuide
from specguide.guided.backend import Outline
from specguide.guided.backends.llguidance.capabilities import LLGUIDANCE
from specguide.guided.backends.llguidance.json_in_lark import pieces
from specguide.guided.backends.llguidance.schema_rules import schema_rules
from specguide.guided.backends.llguidance.schema_terminals import NoRules
from specguide.guided.budget import Budget
from specguide.guided.schema.cores import core_schemas
from specguide.guided.schema.json_values import Json
from specguide.guided.schema.merge import merge
from specguide.guided.schema.nodes import CoreSchema
from specguide.guided.schema.prune import prune

_MOST_CHARACTERS = 2_000_000
_MOST_STEPS = 200_000


def outline_of(lark: str) -> Outline | None:
    """None where a schema in it has no rules, or is too much work."""
    if len(lark) > _MOST_CHARACTERS:
        return None
    try:
        with Budget(_MOST_STEPS).counting():
            return Outline("lark", "".join(pieces(lark, _as_rules)))
    except (InvalidGuide, NoRules, RecursionError):
        return None


def _as_rules(schema: Mapping[str, Json] | bool, _: int) -> str:
    options = schema.get("x-guidance", {}) if isinstance(schema, Mapping) else {}
    for core in _cores(schema):
        try:
            return schema_rules(core, options.get("whitespace_pattern", ""))
        except NoRules:
            pass
    raise NoRules


def _cores(schema: Mapping[str, Json] | bool) -> Iterator[CoreSchema]:
    for core in core_schemas(schema, LLGUIDANCE):
        yield core
        yield prune(merge(core))
