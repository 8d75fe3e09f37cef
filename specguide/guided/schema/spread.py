"""Owns the pass that writes out the objects that a core schema lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from specguide.guided.budget import spend
from specguide.guided.schema.json_values import Json
from specguide.guided.schema.nodes import (
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


def spread(schema: CoreSchema) -> CoreSchema:
    """The same with listed objects written out, property by property, so that these may come in
    any order, too."""
    definitions = {name: _spread(core) for name, core in schema.definitions.items()}
    return replace(schema, root=_spread(schema.root), definitions=definitions)


def _spread(core: Core) -> Core:
    spend()
    if isinstance(core, bool):
        return core
    values = listed(core)
    if any(isinstance(one, (dict, list)) for one in values):
        return _of_values(core.path, values)
    held, named = core.kinds.arrays, core.kinds.objects
    kinds = replace(
        core.kinds,
        arrays=replace(held, prefix=tuple(map(_spread, held.prefix)), rest=_spread(held.rest)),
        objects=replace(
            named,
            properties=_spread_all(named.properties),
            patterns=_spread_all(named.patterns),
            additional=_spread(named.additional),
        ),
    )
    any_of = tuple(map(_spread, core.any_of))
    return replace(core, kinds=kinds, any_of=any_of, all_of=tuple(map(_spread, core.all_of)))


def _spread_all(cores: Mapping[str, Core]) -> dict[str, Core]:
    return {name: _spread(core) for name, core in cores.items()}


def _of_values(path: str, values: Iterable[Json]) -> Core:
    held = [one for one in values if isinstance(one, (dict, list))]
    scalars = one_of_values(path, [one for one in values if not isinstance(one, (dict, list))])
    return any_of(path, [scalars, *(_of_value(path, one) for one in held)])


def _of_value(path: str, value: Json) -> Node:
    spend()
    if isinstance(value, dict):
        properties: dict[str, Core] = {name: _of_value(path, item) for name, item in value.items()}
        return objects(path, Objects(properties, additional=False, required=tuple(properties)))
    if isinstance(value, list):
        prefix = tuple(_of_value(path, item) for item in value)
        return arrays(path, Arrays(len(prefix), None, prefix, False))
    return Node(path, values=(value,))
