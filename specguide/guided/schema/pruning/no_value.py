"""Owns the check that each required property of a schema has a value."""

from __future__ import annotations

from collections.abc import Mapping

from specguide.errors import InvalidGuide
from specguide.guided.budget import spend
from specguide.guided.schema.core.nodes import Core, Node
from specguide.guided.schema.json_values import Json, JsonSchema
from specguide.guided.schema.pointers import escaped

_LISTS = ("enum", "const")
_NULLABLE = (
    '; "nullable" is of OpenAPI 3.0 and says nothing in JSON Schema: write '
    '{"type": ["string", "null"]} or the like'
)


def check_required(root: Core, schema: JsonSchema) -> None:
    """Raises InvalidGuide for a required property whose subschema plainly has no instance. root:
    the schema's core"""
    way = _impossible(root)
    if way is None:
        return
    subschema: Json = schema
    for name in way:
        subschema = (
            subschema.get("properties", {}).get(name) if isinstance(subschema, Mapping) else None
        )
    path = "".join(f"/properties/{escaped(name)}" for name in way)
    raise InvalidGuide(
        f"the schema allows no value at all: the required property at {path} has none"
        f"{_why(subschema)}",
        param="json_schema",
    )


def _impossible(core: Core) -> list[str] | None:
    """The names on the path to a required property without a value; None for none."""
    way: list[str] = []
    todo: list[tuple[int, str | None, Core]] = [(0, None, core)]
    while todo:
        depth, name, one = todo.pop()
        way[depth:] = [] if name is None else [name]
        spend()
        if one is False:
            return way if way else None
        if isinstance(one, Node) and one.kinds.types == ("object",):
            objects = one.kinds.objects
            unnamed = objects.additional if not objects.patterns else True
            todo += [
                (len(way), key, objects.properties.get(key, unnamed)) for key in objects.required
            ]
    return None


def _why(schema: Json) -> str:
    if not isinstance(schema, Mapping):
        return ""
    listing = next((keyword for keyword in _LISTS if keyword in schema), None)
    why = f", since no value of its {listing} meets the keywords beside it" if listing else ""
    return why + (_NULLABLE if schema.get("nullable") is True else "")
