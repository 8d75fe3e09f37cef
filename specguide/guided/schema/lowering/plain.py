"""Owns a short cut into the core for plain schemas: types, properties, items and enums of scalars,
as the arguments of most tools have.

The result equals that of the passes for all schemas.
"""

from __future__ import annotations

from collections.abc import Callable

from specguide.guided.budget import at_work, spend
from specguide.guided.schema.core.nodes import (
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
from specguide.guided.schema.document.shapes import SHAPES
from specguide.guided.schema.json_values import TYPES, Json, JsonSchema, has_type
from specguide.guided.schema.pointers import escaped
from specguide.guided.schema.topics import TOPIC_OF

_OF_OBJECTS = frozenset(("properties", "required", "additionalProperties"))
_SAID = _OF_OBJECTS | {"type", "items"}
_MORE = frozenset(
    ("$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", *SHAPES, *TOPIC_OF)
)
"""Keywords that are not annotations."""
_BESIDE_VALUES = _MORE - {"type", "enum"}
_BESIDE = _MORE - _SAID
_NAMES = frozenset((*TYPES, "integer"))
_STEPS_A_SUBSCHEMA = 40

Child = Callable[[Json, str], Core]
"""Returns the core of a subschema inside, at its JSON pointer."""


class _NotPlain(Exception):
    pass


def plain_core(schema: JsonSchema, has_open_objects: bool) -> CoreSchema | None:
    """Returns the core of a schema; None for one that is not plain, or may be invalid.

    has_open_objects: as in the backend's Capabilities
    """

    def core(schema: Json, path: str) -> Core:
        if isinstance(schema, bool):
            return schema
        _ask(isinstance(schema, dict))
        return _core(schema, path, has_open_objects, core)

    try:
        root = core(schema, "")
    except _NotPlain:
        return None
    return None if root is False else CoreSchema(root)


def plain_node(schema: Json, path: str, has_open_objects: bool, child: Child) -> Core | None:
    """Returns the core of a subschema that is itself plain, though those inside need not be; None
    for one that is not plain, or may be invalid."""
    if not isinstance(schema, dict):
        return None
    if not (_BESIDE_VALUES if "enum" in schema else _BESIDE).isdisjoint(schema):
        return None
    try:
        return _core(schema, path, has_open_objects, child)
    except _NotPlain:
        return None


def _core(schema: dict[str, Json], path: str, is_open: bool, child: Child) -> Core:
    spend(_STEPS_A_SUBSCHEMA + len(schema) + len(path) // 64)
    types = _types(schema)
    if "enum" in schema:
        return _listed(schema, types, path)
    _ask(_BESIDE.isdisjoint(schema))
    _check_shape(schema, types)
    arrays, objects = NO_ARRAYS, NO_OBJECTS
    if "items" in schema:
        with at_work("items", path):
            arrays = Arrays(rest=child(schema["items"], path + "/items"))
    if not _OF_OBJECTS.isdisjoint(schema):
        with at_work("properties", path):
            objects = _objects(schema, path, is_open, child)
    kinds = Kinds(types, arrays=arrays, objects=objects)
    return True if kinds == ANYTHING else Node(path, kinds)


def _check_shape(schema: dict[str, Json], types: tuple[str, ...] | None) -> None:
    """Checks that the array and object keywords are well shaped and that `type` allows these."""
    if "items" in schema:
        _ask(types is None or "array" in types)
        _ask(isinstance(schema["items"], (dict, bool)))
    if not _OF_OBJECTS.isdisjoint(schema):
        _ask(types is None or "object" in types)
        named, required = schema.get("properties", {}), schema.get("required", [])
        _ask(isinstance(named, dict) and isinstance(required, list))
        _ask(all(isinstance(name, str) for name in required))
        _ask(all(isinstance(child, (dict, bool)) for child in named.values()))
        _ask(isinstance(schema.get("additionalProperties", True), (dict, bool)))


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
    """The values that have the type; at least one."""
    _ask(_BESIDE_VALUES.isdisjoint(schema) and isinstance(schema["enum"], list))
    values = schema["enum"]
    spend(sum(1 + len(value) // 16 if isinstance(value, str) else 1 for value in values))
    _ask(all(isinstance(one, (str, int)) for one in values))
    _ask(all(one.isprintable() for one in values if isinstance(one, str)))
    fitting = tuple(value for value in values if has_type(value, types))
    _ask(bool(fitting))
    return Node(path, values=fitting)


def _objects(schema: dict[str, Json], path: str, is_open: bool, child: Child) -> Objects:
    named, required = schema.get("properties", {}), schema.get("required", [])
    spend(len(named) + len(required))
    properties = {
        name: child(subschema, f"{path}/properties/{escaped(name)}")
        for name, subschema in named.items()
    }
    additional: Core = is_open or "properties" not in schema
    if "additionalProperties" in schema:
        additional = child(schema["additionalProperties"], path + "/additionalProperties")
    return Objects(properties, additional=additional, required=tuple(dict.fromkeys(required)))
