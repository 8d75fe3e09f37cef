"""Owns the checks that no reference of a schema, and no definition of its core, leads back to
itself without a step into a part of the value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from specguide.errors import InvalidGuide, UnsupportedGuide
from specguide.guided.budget import spend
from specguide.guided.schema.core.nodes import Core, Node, refuse
from specguide.guided.schema.document.document import Document, Place
from specguide.guided.schema.json_values import Json, is_object
from specguide.guided.schema.subschemas import subschemas


def check_cycles(core: Core, definitions: Mapping[str, Core]) -> None:
    """Raises UnsupportedGuide for a definition that leads back to itself without a step into a part
    of the value."""
    finished: set[str] = set()
    for root in (core, *definitions.values()):
        on_the_way: dict[str, None] = {}
        ways = [_leads_to(root)]  # of the root, and of each definition on the path
        while ways:
            name, reference = next(ways[-1], (None, None))
            if name is None or reference is None:
                ways.pop()
                if ways:
                    finished.add(on_the_way.popitem()[0])
            elif name in on_the_way:
                raise cycle(reference.path)
            elif name not in finished:
                on_the_way[name] = None
                ways.append(_leads_to(definitions[name]))


def _leads_to(core: Core) -> Iterator[tuple[str, Node]]:
    """The definitions that apply to the same value as the core, each with the reference to it."""
    spend()
    if isinstance(core, Node):
        if core.ref is not None:
            yield core.ref, core
        for child in (*core.any_of, *core.all_of):
            yield from _leads_to(child)


def cycle(path: str) -> UnsupportedGuide:
    """Returns the error for a `$ref`, of the subschema at `path`, that leads back to itself."""
    why = "it leads back to itself before it has reached an item or a property; break the cycle"
    return refuse("$ref", path, why)


_OF_THE_SAME_VALUE = frozenset({"allOf", "anyOf", "oneOf"})
_NOT_REACHED = frozenset({"$defs", "definitions"})


def check_references(document: Document) -> None:
    """Raises UnsupportedGuide for a reference that leads back to itself through nothing but
    references, `allOf`, `anyOf` and `oneOf`."""
    if _circle(document, [_targets(document)], with_parts=False) is None:
        return
    # A cycle that cannot be reached from the root does no harm.
    place = _circle(document, [iter([(document.root, document.start)])], with_parts=True)
    if place is not None:
        raise cycle(place.path)


def _targets(document: Document) -> Iterator[tuple[Json, Place]]:
    """The targets of a document's references."""
    for schema, place, _ in document.indexed:
        yield from _referred(document, schema, place)


def _circle(
    document: Document, starts: list[Iterator[tuple[Json, Place]]], *, with_parts: bool
) -> Place | None:
    """The place where a subschema leads back to itself, on a path that begins at `starts`; None for
    none.

    with_parts: paths begin at the subschemas of parts of values, too
    """
    finished: set[int] = set()
    while starts:
        on_the_way: dict[int, Place] = {}
        ways = [starts.pop()]  # of the start, and of each subschema on the path
        while ways:
            schema, place = next(ways[-1], (None, document.start))
            if schema is None:
                ways.pop()
                if ways:
                    finished.add(on_the_way.popitem()[0])
            elif id(schema) in on_the_way:
                *_, reference = on_the_way.values()
                return reference
            elif is_object(schema) and id(schema) not in finished:
                place = document.enter(schema, place)
                on_the_way[id(schema)] = place
                ways.append(_of_the_same_value(document, schema, place))
                if with_parts:
                    starts.append(_of_parts(schema, place))
    return None


def _referred(
    document: Document, schema: Mapping[str, Json], place: Place
) -> Iterator[tuple[Json, Place]]:
    if isinstance(schema.get("$ref"), str):
        with suppress(InvalidGuide):  # lowering raises it
            yield document.resolve(schema["$ref"], place)


def _of_the_same_value(
    document: Document, schema: Mapping[str, Json], place: Place
) -> Iterator[tuple[Json, Place]]:
    """The target of a subschema's reference, and the subschemas in `allOf`, `anyOf` and `oneOf`."""
    spend(2)
    yield from _referred(document, schema, place)
    if "$ref" in schema and document.draft <= 7:
        return
    for keyword, step, child in subschemas(schema):
        if keyword in _OF_THE_SAME_VALUE:
            yield child, Place(place.path + step, place.base)


def _of_parts(schema: Mapping[str, Json], place: Place) -> Iterator[tuple[Json, Place]]:
    """The other direct subschemas of a schema."""
    for keyword, step, child in subschemas(schema):
        if keyword not in _OF_THE_SAME_VALUE | _NOT_REACHED:
            yield child, Place(place.path + step, place.base)
