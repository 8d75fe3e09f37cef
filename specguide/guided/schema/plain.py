"""Owns the short way into the core of schemas that say plainly what there is: types, properties,
items and enums of scalars, as the arguments of most tools do.

It leads to what the passes lead to that take all schemas.
"""

from __future__ import annotations

from specguide.guided.budget import at_work, spend
from specguide.guided.schema.document import escaped
from specguide.guided.schema.json_values import TYPES, Json, JsonSchema, has_type
from specguide.guided.schema.nodes import (
    ANYTHING,
    NO_ARRAYS,
    NO_OBJECTS,
    Arrays,
    Core,
    CoreSchema,
    Kinds,
    Node,
    Objects,
)

_NOTES = frozenset(("title", "description", "default", "examples", "x-guidance"))
_OF_OBJECTS = frozenset(("properties", "required", "additionalProperties"))
_LISTED = _NOTES | {"type", "enum"}
_KNOWN = _NOTES | _OF_OBJECTS | {"type", "items"}
_NAMES = frozenset((*TYPES, "integer"))
_STEPS_A_SUBSCHEMA = 40


class _NotPlain(Exception):
    pass


def plain_core(schema: JsonSchema, has_open_objects: bool) -> CoreSchema | None:
    """The core of a schema; None for one that says more, or may be wrong.

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
        return _listed(schema, types, path)
    if not schema.keys() <= _KNOWN:
        raise _NotPlain
    arrays, objects = NO_ARRAYS, NO_OBJECTS
    if "items" in schema:
        _ask(types is None or "array" in types)
        with at_work("items", path):
            arrays = Arrays(rest=_core(schema["items"], path + "/items", is_open))
    if not schema.keys().isdisjoint(_OF_OBJECTS):
        _ask(types is None or "object" in types)
        with at_work("properties", path):
            objects = _objects(schema, path, is_open)
    kinds = Kinds(types, arrays=arrays, objects=objects)
    return True if kinds == ANYTHING else Node(path, kinds)


def _ask(is_plain: bool) -> None:
    if not is_plain:
        raise _NotPlain


def _types(schema: dict[str, Json]) -> tuple[str, ...] | None:
    named = schema.get("type")
    if named is None:
        _ask("type" not in schema)
        return None
    names = [named] if isinstance(named, str) else named
    _ask(isinstance(names, list) and bool(names))
    _ask(all(isinstance(name, str) and name in _NAMES for name in names))
    return tuple(names)


def _listed(schema: dict[str, Json], types: tuple[str, ...] | None, path: str) -> Core:
    """The values that fit the type, of which there is one at least."""
    _ask(schema.keys() <= _LISTED and isinstance(schema["enum"], list))
    values = schema["enum"]
    spend(sum(1 + len(value) // 16 if isinstance(value, str) else 1 for value in values))
    _ask(all(isinstance(one, (str, int)) for one in values))
    _ask(all(one.isprintable() for one in values if isinstance(one, str)))
    fitting = tuple(value for value in values if has_type(value, types))
    _ask(bool(fitting))
    return Node(path, values=fitting)


def _objects(schema: dict[str, Json], path: str, is_open: bool) -> Objects:
    named, required = schema.get("properties", {}), schema.get("required", [])
    _ask(isinstance(named, dict) and isinstance(required, list))
    _ask(all(isinstance(name, str) for name in required))
    spend(len(named) + len(required))
    properties = {
        name: _core(child, f"{path}/properties/{escaped(name)}", is_open)
        for name, child in named.items()
    }
    additional: Core = is_open or "properties" not in schema
    if "additionalProperties" in schema:
        inside = path + "/additionalProperties"
        additional = _core(schema["additionalProperties"], inside, is_open)
    return Objects(properties, additional=additional, required=tuple(dict.fromkeys(required)))
