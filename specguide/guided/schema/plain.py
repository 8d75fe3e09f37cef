"""Owns the short way into the core of schemas that say plainly what there is: types, properties,
items and enums of scalars, as the arguments of most tools do.

It comes to what the passes of `cores` come to, in a third of the time.
"""

from __future__ import annotations

from collections.abc import Mapping

from specguide.guided.budget import spend
from specguide.guided.schema.document import escaped
from specguide.guided.schema.json_values import TYPES, Json, JsonSchema, has_type, named_types
from specguide.guided.schema.nodes import Arrays, Core, CoreSchema, Kinds, Node, Objects
from specguide.guided.schema.topics import allowed_types

_NOTES = frozenset(("title", "description", "default", "examples"))
_LISTED = _NOTES | {"type", "enum"}
_KNOWN = _NOTES | {"type", "properties", "required", "additionalProperties", "items"}
_NAMES = frozenset((*TYPES, "integer"))
_STEPS_A_SUBSCHEMA = 40


class _NotPlain(Exception):
    pass


def plain_core(schema: JsonSchema, has_open_objects: bool) -> CoreSchema | None:
    """The core of a schema; None for one that says more, or that may be wrong.

    has_open_objects: as of the backend's Capabilities
    """
    try:
        root = _core(schema, "", has_open_objects)
    except _NotPlain:
        return None
    return None if root is False else CoreSchema(root)


def _core(schema: Json, path: str, is_open: bool) -> Core:
    if isinstance(schema, bool):
        return schema
    if not isinstance(schema, dict):
        raise _NotPlain
    spend(_STEPS_A_SUBSCHEMA + len(schema) + len(path) // 64)
    types = _types(schema)
    if "enum" in schema:
        return _one_of(schema, path)
    if not schema.keys() <= _KNOWN:
        raise _NotPlain
    allowed = allowed_types(schema)
    asked = {}
    if "items" in schema and "array" in allowed:
        rest = _core(schema["items"], f"{path}/items", is_open)
        asked["arrays"] = Arrays(rest=rest)
    if "object" in allowed and not schema.keys().isdisjoint(_OF_OBJECTS):
        asked["objects"] = _objects(schema, path, is_open)
    kinds = Kinds(types, **asked)
    return Node(path, kinds) if kinds != _ANYTHING else True
