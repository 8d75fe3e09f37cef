"""Owns the lowering of `propertyNames` to properties and patterns of names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice

from specguide.guided.budget import kept_of, spend
from specguide.guided.regex.both import any_one, together
from specguide.guided.regex.nfa import text_matcher
from specguide.guided.regex.tree import (
    ANY_CHAR,
    ANY_TEXT,
    NOTHING,
    Both,
    Regex,
    Repeat,
    UnsupportedRegex,
    literals,
)
from specguide.guided.regex.writer import is_exact, restrict
from specguide.guided.schema.core.evaluate import takes
from specguide.guided.schema.core.nodes import (
    Core,
    Kinds,
    Node,
    Objects,
    any_of,
    listed,
    objects,
    refuse,
)
from specguide.guided.schema.core.pattern_text import read_pattern, refusing, write_pattern
from specguide.guided.schema.document.document import Place
from specguide.guided.schema.json_values import Json
from specguide.guided.schema.lowering.lowering import Lowering
from specguide.guided.schema.pointers import escaped

FEW_NAMES = 8
"""Objects that need one of up to this many names become a choice between them."""


def lower_names(
    lowering: Lowering,
    schema: Mapping[str, Json],
    place: Place,
    properties: dict[str, Core],
    additional: Core,
) -> tuple[list[tuple[Regex, Core]], Core]:
    """Returns the patterns and the subschema of additional properties under `propertyNames`; sets
    forbidden names in `properties` to False."""
    core = _lowered(lowering, schema, place)
    return _under_names(core, place, properties, additional)


def _under_names(
    core: Core, place: Place, properties: dict[str, Core], additional: Core
) -> tuple[list[tuple[Regex, Core]], Core]:
    if core is True:
        return [], additional
    node = _name_node(core, place)
    allowed = set(_matched(node, properties, "propertyNames", place))
    for name in properties.keys() - allowed:
        properties[name] = False
    names = [name for name in listed(core) if isinstance(name, str)]
    for name in names:
        properties.setdefault(name, additional)
    if additional is False or names:
        return [], False
    return [(node if additional is True else _others(node, allowed), additional)], False


def _others(node: Regex, names: Collection[str]) -> Regex:
    """The strings of a tree except these names; all its strings where that tree is too large."""
    if not names:
        return node
    items, but = (node.items, node.but) if isinstance(node, Both) else ((node,), ())
    try:
        left_out = (*but, literals(sorted(names)))
        return together(items, left_out, is_exact=is_exact(node))
    except UnsupportedRegex:
        return node


def only_names(lowering: Lowering, core: Core, place: Place) -> Core:
    """Returns objects of at least one property whose names all fit `core`, or that have a property
    which the document names and which fits. If few names fit, objects with one of these."""
    few = [name for name in listed(core) if isinstance(name, str)]
    if 0 < len(few) <= FEW_NAMES:
        return with_one_of(place.path, few, True)
    properties: dict[str, Core] = {}
    patterns, additional = _under_names(core, place, properties, True)
    characters = lowering.capabilities.characters
    with refusing("propertyNames", place.path):
        texts = [write_pattern(node, characters) for node, _ in patterns]
    written: dict[str, Core] = {text: True for text in texts if text is not None}
    only = objects(place.path, Objects(properties, written, additional, min_properties=1))
    named = with_one_known(lowering, place.path, lambda name: takes(core, name, {}), True)
    return any_of(place.path, [named, only])


def with_one_known(
    lowering: Lowering, path: str, may_be: Callable[[str], bool], core: Core
) -> Core:
    """Returns objects that have one of the few properties nearest to the path that the document
    names and `may_be` allows, and whose value fits `core`."""
    names = filter(may_be, nearest_names(lowering.document.root, path))
    return with_one_of(path, islice(names, FEW_NAMES), core)


def nearest_names(root: Json, path: str) -> Iterator[str]:
    """Yields the properties that a document names: first those below the path, then those below its
    parent, and so on."""
    by_place = kept_of(_names_by_place, root)
    seen = set[str]()
    while True:
        for name in by_place.get(path, ()):
            spend()
            if name not in seen:
                seen.add(name)
                yield name
        if not path:
            return
        path = path.rpartition("/")[0]


def _names_by_place(root: Json) -> dict[str, dict[str, None]]:
    """Path in a document → the properties named there or below it."""
    names: dict[str, dict[str, None]] = {}
    for place, name in _property_names(root, ""):
        while name not in names.setdefault(place, {}):
            spend()
            names[place][name] = None
            place = place.rpartition("/")[0]
    return names


def _property_names(value: Json, path: str) -> Iterator[tuple[str, str]]:
    """The property names in a document, each with the pointer to its schema."""
    spend()
    is_schema = isinstance(value, Mapping)
    named = value.get("properties") if is_schema else None
    yield from ((path, name) for name in (named if isinstance(named, Mapping) else ()))
    for step, part in value.items() if is_schema else enumerate(value):
        if isinstance(part, (Mapping, list)):
            yield from _property_names(part, f"{path}/{escaped(str(step))}")


def with_one_of(path: str, names: Iterable[str], core: Core) -> Core:
    """Returns objects that have one of these properties, with a value that fits `core`."""
    return any_of(path, [objects(path, Objects({name: core}, required=(name,))) for name in names])


def names_alone(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Core:
    """Returns the core of `propertyNames` alone."""
    core = _lowered(lowering, schema, place)
    if core is True:
        return True
    node = _name_node(core, place)
    with refusing("propertyNames", place.path):
        pattern = write_pattern(node, lowering.capabilities.characters)
    allowed: dict[str, Core] = {} if pattern is None else {pattern: True}
    return Node(place.path, Kinds(objects=Objects(patterns=allowed, additional=False)))


def matched(
    node: Regex, names: Iterable[str], keyword: str, place: Place, lowering: Lowering
) -> list[str]:
    """Returns the names that a tree matches and that can be generated."""
    return _matched(restrict(node, lowering.capabilities.characters), names, keyword, place)


def _matched(node: Regex, names: Iterable[str], keyword: str, place: Place) -> list[str]:
    """The names that a tree without anchors matches."""
    matcher = text_matcher(node)
    try:
        return [name for name in names if matcher.matches(name)]
    except UnsupportedRegex as error:
        raise refuse(keyword, place.path, str(error)) from error


def _lowered(lowering: Lowering, schema: Mapping[str, Json], place: Place) -> Core:
    with lowering.without_references():
        return lowering.lower(schema["propertyNames"], place / "propertyNames")


def _name_node(core: Core, place: Place) -> Regex:
    """The strings that are instances of a core schema."""
    if isinstance(core, bool):
        return ANY_TEXT if core else NOTHING
    types = core.kinds.types
    if types is not None and "string" not in types:
        return NOTHING
    names = next(
        (_words(conjunct) for conjunct in (core, *core.all_of) if _words(conjunct) is not None),
        None,
    )
    try:
        conjuncts = list(_conjuncts_of_name(core, place))
        if len(conjuncts) < 2:
            return conjuncts[0] if conjuncts else ANY_TEXT
        if names is not None:
            matchers = list(map(text_matcher, conjuncts))
            return literals(
                [name for name in names if all(conjunct.matches(name) for conjunct in matchers)]
            )
        return together(conjuncts, [], is_exact=all(map(is_exact, conjuncts)))
    except UnsupportedRegex as error:
        raise refuse("propertyNames", place.path, str(error)) from error


def _words(core: Core) -> list[str] | None:
    """The strings that a node enumerates; None for a node that enumerates nothing."""
    if isinstance(core, bool) or core.values is None:
        return None
    return [value for value in core.values if isinstance(value, str)]


def _conjuncts_of_name(core: Node, place: Place) -> Iterator[Regex]:
    """A node's constraints of a string, one by one."""
    if core.values is not None:
        yield literals(_words(core) or [])
    if core.any_of:
        yield any_one(_name_node(option, place) for option in core.any_of)
    strings = core.kinds.strings
    if strings.pattern is not None:
        yield read_pattern(strings.pattern, "propertyNames", place.path)
    least, most = strings.min_length or 0, strings.max_length
    if most is not None and least > most:
        yield NOTHING
    elif least or most is not None:
        yield Repeat(ANY_CHAR, least, most)
    for part in core.all_of:
        yield _name_node(part, place)
