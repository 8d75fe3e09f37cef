"""Owns the pass that writes out the objects that a core schema enumerates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from specguide.guided.budget import spend
from specguide.guided.schema.core.nodes import (
    Arrays,
    Core,
    CoreSchema,
    Node,
    Objects,
    any_of,
    arrays,
    listed,
    objects,
    one_of_values,
)
from specguide.guided.schema.core.walk import with_children
from specguide.guided.schema.json_values import Json


def spread(schema: CoreSchema) -> CoreSchema:
    """Returns the schema with enumerated objects written out, property by property, so that their
    keys may come in any order. Shared nodes stay shared."""
    spreading = _Spreading()
    definitions = {name: spreading.of(core) for name, core in schema.definitions.items()}
    return replace(schema, root=spreading.of(schema.root), definitions=definitions)


class _Spreading:
    """Writes out nodes, each once."""

    def __init__(self) -> None:
        self._known: dict[int, Core] = {}

    def of(self, core: Core) -> Core:
        if isinstance(core, bool):
            return core
        if id(core) not in self._known:
            spend()
            values = listed(core)
            is_held = any(isinstance(value, (dict, list)) for value in values)
            self._known[id(core)] = (
                _of_values(core.path, values) if is_held else with_children(core, self.of)
            )
        return self._known[id(core)]


def _of_values(path: str, values: Iterable[Json]) -> Core:
    containers = [value for value in values if isinstance(value, (dict, list))]
    scalars = one_of_values(
        path, [value for value in values if not isinstance(value, (dict, list))]
    )
    return any_of(path, [scalars, *(_of_value(path, value) for value in containers)])


def _of_value(path: str, value: Json) -> Node:
    spend()
    if isinstance(value, dict):
        properties: dict[str, Core] = {name: _of_value(path, item) for name, item in value.items()}
        return objects(path, Objects(properties, additional=False, required=tuple(properties)))
    if isinstance(value, list):
        prefix = tuple(_of_value(path, item) for item in value)
        return arrays(path, Arrays(len(prefix), None, prefix, False))
    return Node(path, values=(value,))
