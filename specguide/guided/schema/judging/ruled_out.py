"""Owns the subschemas of an object's properties, and whether a `not` of one schema rules out all
objects of another."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeAlias

from specguide.guided.budget import spend
from specguide.guided.regex.tree import RegexError
from specguide.guided.schema.core.patterns import pattern_may_match
from specguide.guided.schema.document.document import Document, Place
from specguide.guided.schema.json_values import Json, is_object
from specguide.guided.schema.judging.instance import Instances
from specguide.guided.schema.topics import allowed_types

Located: TypeAlias = tuple[Json, Place]
"""A subschema and its place."""
ANYWHERE: Located = (True, Place("", ""))
_OF_PROPERTIES = frozenset({"type", "properties", "required", "title", "description", "$comment"})


def property_of(located: Located, name: str) -> Located:
    """The subschema of a property, by one subschema's own keywords."""
    schema, place = located
    if name in schema.get("properties", {}):
        return schema["properties"][name], place / "properties" / name
    others = schema.get("additionalProperties", True)
    if others is True or _may_match_any(schema.get("patternProperties", ()), name):
        return ANYWHERE
    return others, place / "additionalProperties"


def _may_match_any(patterns: Iterable[str], name: str) -> bool:
    try:
        return any(pattern_may_match(pattern, name) for pattern in patterns)
    except RegexError:  # lowering reports it
        return True


def listed_values(schema: Json) -> list[Json] | None:
    """The values that `const` or `enum` lists; None without these keywords."""
    if not is_object(schema):
        return None
    return [schema["const"]] if "const" in schema else schema.get("enum")


def rules_out(
    document: Document,
    instances: Instances,
    one: Located,
    others: Iterable[Located],
    required: Collection[str],
) -> bool:
    """Whether a `not` of one subschema certainly rules out all objects that fit the others, since
    it only asks of properties whose values these list.

    required: properties that the objects have
    """
    schema, place = one
    failed = schema.get("not")
    if not is_object(failed) or "properties" not in failed or failed.keys() - _OF_PROPERTIES:
        return False
    place = place / "not"
    document.check(failed, place)
    if "object" not in allowed_types(failed) or not set(failed.get("required", ())) <= {*required}:
        return False
    place = document.enter(failed, place)
    for name, child in failed["properties"].items():
        spend(4)
        lists = (listed_values(property_of(other, name)[0]) for other in others)
        values = next((values for values in lists if values is not None), None)
        at = place / "properties" / name
        if values is None or not all(instances.fits(child, at, value) for value in values):
            return False
    return True
