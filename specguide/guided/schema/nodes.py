"""Owns the core: the part of JSON Schema that grammar backends enforce, as typed nodes.

The core has no drafts, no remote or relative references, no conditionals, no negation and one
regular expression dialect. What a node asks for holds all at once: of a value by its type, the
values that it lists, a choice, a definition, and other nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TypeAlias, TypeVar

from specguide.errors import UnsupportedGuide
from specguide.guided.quick import quick
from specguide.guided.schema.json_values import Json, Number


@quick
@dataclass(frozen=True)
class Numbers:
    """What is asked of numbers. is_fraction: integers are none of them; not_multiples: multiples of
    these are none of them"""

    minimum: Number | None = None
    exclusive_minimum: Number | None = None
    maximum: Number | None = None
    exclusive_maximum: Number | None = None
    multiple_of: Number | None = None
    is_fraction: bool = False
    not_multiples: tuple[Number, ...] = ()

    @property
    def negates(self) -> bool:
        """Whether it says what numbers are not."""
        return self.is_fraction or bool(self.not_multiples)

    @property
    def is_bounded(self) -> bool:
        """Whether there is a least or a greatest number."""
        bounds = (self.minimum, self.exclusive_minimum, self.maximum, self.exclusive_maximum)
        return any(bound is not None for bound in bounds)


@quick
@dataclass(frozen=True)
class Strings:
    """What is asked of strings; `pattern` is in the core's dialect."""

    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None


@quick
@dataclass(frozen=True)
class Arrays:
    """What is asked of arrays: of the first items by their place, and of the rest.

    is_distinct: no two items are equal; this is for the guard, and no library is told
    """

    min_items: int | None = None
    max_items: int | None = None
    prefix: tuple[Core, ...] = ()
    rest: Core = True
    is_distinct: bool = False


@quick
@dataclass(frozen=True)
class Objects:
    """What is asked of objects: of properties by name, by pattern, and of those named nowhere."""

    properties: Mapping[str, Core] = field(default_factory=dict)
    patterns: Mapping[str, Core] = field(default_factory=dict)
    additional: Core = True
    required: tuple[str, ...] = ()
    min_properties: int | None = None
    max_properties: int | None = None


NO_NUMBERS = Numbers()
NO_STRINGS = Strings()
NO_ARRAYS = Arrays()
NO_OBJECTS = Objects()


@quick
@dataclass(frozen=True)
class Kinds:
    """What is asked of a value by its type. types: those that it may be of; None: any"""

    types: tuple[str, ...] | None = None
    numbers: Numbers = NO_NUMBERS
    strings: Strings = NO_STRINGS
    arrays: Arrays = NO_ARRAYS
    objects: Objects = NO_OBJECTS


ANYTHING = Kinds()


@quick
@dataclass(frozen=True)
class Node:
    """A subschema of the core: what holds of a value at once.

    path:   the JSON pointer of the original subschema that it comes from
    values: one of them; None: any
    any_of: one of these choices, of which there are two at least; (): no choice
    ref:    the name of a definition
    all_of: more that holds
    is_failure: its choices are ways to fail a subschema, of which fewer may be said
    """

    path: str = field(compare=False)
    kinds: Kinds = ANYTHING
    values: tuple[Json, ...] | None = None
    any_of: tuple[Core, ...] = ()
    ref: str | None = None
    all_of: tuple[Core, ...] = ()
    is_failure: bool = field(default=False, compare=False)


Core: TypeAlias = Node | bool
"""A node; True stands for any value, False for none."""


@quick
@dataclass(frozen=True)
class Tracked:
    """What the grammar of an object whose keys come in any order must see to itself.

    names:      required properties that must all come
    is_counted: whether it counts the properties
    """

    names: tuple[str, ...] = ()
    is_counted: bool = False


@quick
@dataclass(frozen=True)
class CoreSchema:
    """A whole schema of the core: where it begins, and the definitions that nodes refer to.

    tracked: None where keys come in the schema's order. Else they come in any; and what the
             grammar must see to is here by the id of an object's Objects
    """

    root: Core
    definitions: Mapping[str, Core] = field(default_factory=dict)
    tracked: Mapping[int, Tracked] | None = None


def typed(path: str, *types: str) -> Node:
    """Values of some types."""
    return Node(path, Kinds(types=types))


def numbers(path: str, asked: Numbers) -> Node:
    """Numbers."""
    return Node(path, Kinds(types=("number",), numbers=asked))


def strings(path: str, asked: Strings) -> Node:
    """Strings."""
    return Node(path, Kinds(types=("string",), strings=asked))


def arrays(path: str, asked: Arrays) -> Node:
    """Arrays."""
    return Node(path, Kinds(types=("array",), arrays=asked))


def objects(path: str, asked: Objects) -> Node:
    """Objects."""
    return Node(path, Kinds(types=("object",), objects=asked))


ANY_OBJECT = CoreSchema(typed("", "object"))
"""Any JSON object."""


def num_asks(node: Node) -> int:
    """By how many of its fields a node asks for something; 0 where it stands for any value."""
    return (
        says_something(node.kinds)
        + (node.values is not None)
        + bool(node.any_of)
        + (node.ref is not None)
        + bool(node.all_of)
    )


def says_something(kinds: Kinds) -> bool:
    """Whether it asks for something."""
    return kinds is not ANYTHING and (kinds.types is not None or kinds != ANYTHING)


def one_of_values(path: str, values: Iterable[Json]) -> Core:
    """One of the values; False where there is none."""
    listed = tuple(values)
    return Node(path, values=listed) if listed else False


def listed(core: Core) -> tuple[Json, ...]:
    """The values that are all there is to a core schema; none where there is more to it."""
    if isinstance(core, bool) or core.values is None:
        return ()
    return core.values if num_asks(core) == 1 else ()


def any_of(path: str, options: Iterable[Core]) -> Core:
    """Instances of any of the options."""
    kept = tuple(option for option in options if option is not False)
    if any(option is True for option in kept):
        return True
    if len(kept) <= 1:
        return kept[0] if kept else False
    return Node(path, any_of=kept)


def all_of(path: str, parts: Iterable[Core]) -> Core:
    """Instances of all the parts."""
    kept = tuple(part for part in parts if part is not True)
    if any(part is False for part in kept):
        return False
    if len(kept) <= 1:
        return kept[0] if kept else True
    return Node(path, all_of=kept)


def conjoined(path: str, parts: Iterable[Core]) -> Core:
    """What the parts of one subschema ask; those that share no keyword go side by side."""
    node: Node | None = None
    for part in parts:
        if part is False:
            return False
        if part is not True:
            node = _alone(path, part) if node is None else _beside(node, part)
    if node is None:
        return True
    asks = num_asks(node)
    if asks == 1 and len(node.all_of) == 1:
        return node.all_of[0]
    return node if asks else True


def _alone(path: str, part: Node) -> Node:
    """A node that asks what its first part asks."""
    is_simple = not part.all_of and part.values != () and not part.kinds.numbers.negates
    if part.path == path and is_simple and num_asks(part) == 1 and not part.is_failure:
        return part
    return _beside(Node(path), part)


def _beside(node: Node, part: Node) -> Node:
    """A node that asks what a part asks, too."""
    asked = _only_asked(part)
    if asked == "all_of":
        return replace(node, all_of=node.all_of + part.all_of)
    if asked is not None and part.path == node.path:
        if asked == "kinds" and not part.kinds.numbers.negates:
            kinds = _kinds_beside(node.kinds, part.kinds)
            if kinds is not None:
                return replace(node, kinds=kinds)
        elif asked != "kinds" and not getattr(node, asked):
            is_failure = part.is_failure if asked == "any_of" else node.is_failure
            return replace(node, is_failure=is_failure, **{asked: getattr(part, asked)})
    return replace(node, all_of=(*node.all_of, part))


def _kinds_beside(ours: Kinds, theirs: Kinds) -> Kinds | None:
    """What both ask; None where both set one field."""
    numbers = _fields_beside(ours.numbers, theirs.numbers, NO_NUMBERS)
    strings = _fields_beside(ours.strings, theirs.strings, NO_STRINGS)
    arrays = _fields_beside(ours.arrays, theirs.arrays, NO_ARRAYS)
    objects = _fields_beside(ours.objects, theirs.objects, NO_OBJECTS)
    if numbers is None or strings is None or arrays is None or objects is None:
        return None
    if ours.types and theirs.types:
        return None
    return Kinds(ours.types or theirs.types, numbers, strings, arrays, objects)


_Asked = TypeVar("_Asked", Numbers, Strings, Arrays, Objects)


def _fields_beside(ours: _Asked, theirs: _Asked, nothing: _Asked) -> _Asked | None:
    if theirs is nothing or ours is nothing:
        return ours if theirs is nothing else theirs
    asked = {
        one.name: getattr(theirs, one.name)
        for one in fields(theirs)
        if getattr(theirs, one.name) != getattr(nothing, one.name)
    }
    if any(getattr(ours, name) != getattr(nothing, name) for name in asked):
        return None
    return replace(ours, **asked)


def _only_asked(node: Node) -> str | None:
    """The one field by which a node asks for something; None where there are several."""
    found = []
    if node.values:
        found.append("values")
    if node.any_of:
        found.append("any_of")
    if node.ref:
        found.append("ref")
    if node.all_of:
        found.append("all_of")
    if not found or says_something(node.kinds):
        found.append("kinds")
    return found[0] if len(found) == 1 else None


def children(node: Node) -> Iterator[Core]:
    """The nodes right inside a node, but for those that hold at once with it."""
    yield from node.any_of
    yield from node.kinds.arrays.prefix
    yield node.kinds.arrays.rest
    yield from node.kinds.objects.properties.values()
    yield from node.kinds.objects.patterns.values()
    yield node.kinds.objects.additional


def negates_numbers(schema: CoreSchema) -> bool:
    """Whether it asks anywhere that a number is no integer, or no multiple of another."""
    todo: list[Core] = [schema.root, *schema.definitions.values()]
    for core in todo:  # which grows
        if isinstance(core, bool):
            continue
        asked = core.kinds.numbers
        if asked is not NO_NUMBERS and asked.negates:
            return True
        if core.kinds.arrays is not NO_ARRAYS or core.kinds.objects is not NO_OBJECTS:
            todo += children(core)
        elif core.any_of:
            todo += core.any_of
        todo += core.all_of
    return False


def refuse(keyword: str, path: str, why: str) -> UnsupportedGuide:
    """The error for a keyword, of the subschema at `path`, that cannot be enforced."""
    path = f"{path}/{keyword}"
    return UnsupportedGuide(
        f"{keyword} at {path} cannot be enforced: {why}", keyword=keyword, path=path
    )
