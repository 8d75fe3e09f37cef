"""Owns the check that two subschemas certainly name no property in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from specguide.guided.regex.automaton import automaton
from specguide.guided.regex.tree import Regex, RegexError, literals
from specguide.guided.regex.whole import searched
from specguide.guided.schema.json_values import Json


def share_no_name(left: Mapping[str, Json], right: Mapping[str, Json]) -> bool:
    """Whether it is certain, by their own keywords, that no object with a property is an instance
    of both: they are closed, and allow no name in common."""
    if any(schema.get("additionalProperties") is not False for schema in (left, right)):
        return False
    names, others = (schema.get("properties", {}).keys() for schema in (left, right))
    if not names.isdisjoint(others):
        return False
    if "patternProperties" not in left and "patternProperties" not in right:
        return True
    try:
        return not any(_share_text(*pair) for pair in product(_named(left), _named(right)))
    except RegexError:  # lowering reports it, or the automata are too large
        return False


def _named(schema: Mapping[str, Json]) -> Iterator[Regex]:
    yield literals(schema.get("properties", {}))
    yield from map(searched, schema.get("patternProperties", {}))


def _share_text(left: Regex, right: Regex) -> bool:
    """Whether, in any dialect, both trees match some string."""
    return bool((automaton(left, outer=True) & automaton(right, outer=True)).accepting)
