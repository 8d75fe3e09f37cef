"""Owns the core: the part of JSON Schema that grammar backends enforce, as typed nodes.

The core has no drafts, no remote or relative references, no conditionals, no negation and one
regular expression dialect. What a node asks for holds all at once: of a value by its type, the
values that it lists, a choice, a definition, and other nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

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

    def item(self, i: int) -> Core:
        """What is asked of the item at place i."""
        return self.prefix[i] if i < len(self.prefix) else self.rest


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

    @property
    def is_closed(self) -> bool:
        """Whether there are no other properties than the named ones."""
        return self.additional is False and not self.patterns

    @property
    def impossible(self) -> frozenset[str]:
        """The named properties that may not come."""
        found: frozenset[str] | None = self.__dict__.get("_impossible")
        if found is None:
            found = frozenset([name for name, child in self.properties.items() if child is False])
            self.__dict__["_impossible"] = found
        return found


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

    def may_be(self, name: str) -> bool:
        """A value of the type `name` is not excluded."""
        return self.types is None or name in self.types


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


def shared_parts(core: Core) -> tuple[int, int, str | None] | None:
    """What a node is made of, but for its place, by identities: nodes of the same parts ask the
    same, while these live. None where there is more to it, or no node."""
    if isinstance(core, bool) or core.any_of or core.all_of:
        return None
    return id(core.kinds), id(core.values), core.ref


def refuse(keyword: str, path: str, why: str) -> UnsupportedGuide:
    """The error for a keyword, of the subschema at `path`, that cannot be enforced."""
    path = f"{path}/{keyword}"
    return UnsupportedGuide(
        f"{keyword} at {path} cannot be enforced: {why}", keyword=keyword, path=path
    )
