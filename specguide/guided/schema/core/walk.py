"""Owns the traversal of a core schema's nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from specguide.guided.budget import spend
from specguide.guided.schema.core.nodes import NO_ARRAYS, NO_OBJECTS, Core, CoreSchema, Kinds, Node


def children(node: Node) -> list[Core]:
    """Returns the direct children of a node, except those in `all_of`."""
    arrays, objects = node.kinds.arrays, node.kinds.objects
    nodes = [*node.any_of]
    if arrays is not NO_ARRAYS:
        nodes += (*arrays.prefix, arrays.rest)
    if objects is not NO_OBJECTS:
        nodes += objects.properties.values()
        nodes += (*objects.patterns.values(), objects.additional)
    return nodes


def leads_to(node: Node, definitions: Mapping[str, Core]) -> list[Core]:
    """Returns all direct children of a node, and the definition that it refers to, if given."""
    nodes = [*children(node), *node.all_of]
    if node.ref is not None and node.ref in definitions:
        nodes.append(definitions[node.ref])
    return nodes


def walk(cores: Iterable[Core], definitions: Mapping[str, Core]) -> Iterator[Node]:
    """Yields each node that is reachable from the cores once, also through references to these
    definitions."""
    todo = list(cores)
    seen: set[int] = set()
    while todo:
        core = todo.pop()
        if isinstance(core, Node) and id(core) not in seen:
            spend()
            seen.add(id(core))
            yield core
            todo += leads_to(core, definitions)


def all_nodes(schema: CoreSchema) -> Iterator[Node]:
    """Yields each node of a schema once."""
    return walk([schema.root, *schema.definitions.values()], {})


def negates_numbers(schema: CoreSchema) -> bool:
    """Whether a node anywhere excludes integers or multiples."""
    return any(node.kinds.numbers.negates for node in all_nodes(schema))


def with_children(node: Node, make: Callable[[Core], Core]) -> Node:
    """Returns the node with each direct child replaced by `make` of it."""
    any_of, all_of = tuple(map(make, node.any_of)), tuple(map(make, node.all_of))
    return replace(node, kinds=with_parts(node.kinds, make), any_of=any_of, all_of=all_of)


def with_parts(kinds: Kinds, make: Callable[[Core], Core]) -> Kinds:
    """Returns the kinds with the subschemas of items and properties replaced by `make` of them."""
    arrays, objects = kinds.arrays, kinds.objects
    if arrays is not NO_ARRAYS:
        prefix = tuple(map(make, arrays.prefix))
        kinds = replace(kinds, arrays=replace(arrays, prefix=prefix, rest=make(arrays.rest)))
    if objects is not NO_OBJECTS:
        made = replace(
            objects,
            properties={name: make(core) for name, core in objects.properties.items()},
            patterns={name: make(core) for name, core in objects.patterns.items()},
            additional=make(objects.additional),
        )
        kinds = replace(kinds, objects=made)
    return kinds
