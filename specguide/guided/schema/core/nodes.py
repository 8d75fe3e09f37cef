"""Owns the core: the part of JSON Schema that grammar backends enforce, as typed nodes.

The core has no drafts, no remote or relative references, no conditionals, no negation but for
numbers, and one dialect of regular expressions. A node is the conjunction of its fields:
constraints by type, an enumeration, a disjunction, a reference to a definition, and further nodes.
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
    """Constraints of numbers.

    is_fraction:   integers are excluded
    not_multiples: multiples of these numbers are excluded
    """

    minimum: Number | None = None
    exclusive_minimum: Number | None = None
    maximum: Number | None = None
    exclusive_maximum: Number | None = None
    multiple_of: Number | None = None
    is_fraction: bool = False
    not_multiples: tuple[Number, ...] = ()

    @property
    def negates(self) -> bool:
        """Whether it excludes integers or multiples."""
        return self.is_fraction or bool(self.not_multiples)

    @property
    def is_bounded(self) -> bool:
        """Whether it has a lower or an upper bound."""
        bounds = (self.minimum, self.exclusive_minimum, self.maximum, self.exclusive_maximum)
        return any(bound is not None for bound in bounds)


@quick
@dataclass(frozen=True)
class Strings:
    """Constraints of strings; `pattern` is in the core's dialect."""

    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None


@quick
@dataclass(frozen=True)
class Arrays:
    """Constraints of arrays.

    prefix:      subschemas of the first items, by position
    rest:        subschema of all other items
    is_distinct: no two items are equal; only a guard is given this, no library
    """

    min_items: int | None = None
    max_items: int | None = None
    prefix: tuple[Core, ...] = ()
    rest: Core = True
    is_distinct: bool = False

    def item(self, i: int) -> Core:
        """Returns the subschema of the item at index i."""
        return self.prefix[i] if i < len(self.prefix) else self.rest


@quick
@dataclass(frozen=True)
class Objects:
    """Constraints of objects.

    properties: subschemas by name
    patterns:   subschemas by a pattern of names
    additional: subschema of the properties that neither of these names
    """

    properties: Mapping[str, Core] = field(default_factory=dict)
    patterns: Mapping[str, Core] = field(default_factory=dict)
    additional: Core = True
    required: tuple[str, ...] = ()
    min_properties: int | None = None
    max_properties: int | None = None

    @property
    def is_closed(self) -> bool:
        """Whether all other properties than the named ones are excluded."""
        return self.additional is False and not self.patterns

    @property
    def impossible(self) -> frozenset[str]:
        """The named properties that are excluded."""
        names: frozenset[str] | None = self.__dict__.get("_impossible")
        if names is None:
            names = frozenset([name for name, child in self.properties.items() if child is False])
            self.__dict__["_impossible"] = names
        return names


NO_NUMBERS = Numbers()
NO_STRINGS = Strings()
NO_ARRAYS = Arrays()
NO_OBJECTS = Objects()


@quick
@dataclass(frozen=True)
class Kinds:
    """Constraints of a value by its type. types: the allowed types; None: all"""

    types: tuple[str, ...] | None = None
    numbers: Numbers = NO_NUMBERS
    strings: Strings = NO_STRINGS
    arrays: Arrays = NO_ARRAYS
    objects: Objects = NO_OBJECTS

    def may_be(self, name: str) -> bool:
        """Whether values of the type `name` are allowed."""
        return self.types is None or name in self.types


ANYTHING = Kinds()


@quick
@dataclass(frozen=True)
class Node:
    """A subschema of the core: the conjunction of its fields.

    path:       JSON pointer of the user's subschema that it comes from
    values:     an instance equals one of these; None: no enumeration
    any_of:     it is an instance of at least one of these, of which there are two or more; (): none
    ref:        name of a definition
    all_of:     further nodes of the conjunction
    is_failure: its `any_of` lists ways to fail a subschema, of which some may be left out
    """

    path: str = field(compare=False)
    kinds: Kinds = ANYTHING
    values: tuple[Json, ...] | None = None
    any_of: tuple[Core, ...] = ()
    ref: str | None = None
    all_of: tuple[Core, ...] = ()
    is_failure: bool = field(default=False, compare=False)


Core: TypeAlias = Node | bool
"""A node; True allows every value, False none."""


@quick
@dataclass(frozen=True)
class Tracked:
    """What the grammar of an object whose keys come in any order must enforce itself.

    names:      required properties
    is_counted: whether the number of properties is bounded
    """

    names: tuple[str, ...] = ()
    is_counted: bool = False


@quick
@dataclass(frozen=True)
class CoreSchema:
    """A whole schema of the core: its root, and the definitions that nodes refer to.

    tracked: None where keys come in the schema's order. Otherwise they come in any order, and this
             says what the grammar must enforce, by the id of each object's Objects; {} before
             `key_places` found that out
    """

    root: Core
    definitions: Mapping[str, Core] = field(default_factory=dict)
    tracked: Mapping[int, Tracked] | None = None


def typed(path: str, *types: str) -> Node:
    """Returns a node of the values of some types."""
    return Node(path, Kinds(types=types))


def numbers(path: str, constraints: Numbers) -> Node:
    """Returns a node of numbers."""
    return Node(path, Kinds(types=("number",), numbers=constraints))


def strings(path: str, constraints: Strings) -> Node:
    """Returns a node of strings."""
    return Node(path, Kinds(types=("string",), strings=constraints))


def arrays(path: str, constraints: Arrays) -> Node:
    """Returns a node of arrays."""
    return Node(path, Kinds(types=("array",), arrays=constraints))


def objects(path: str, constraints: Objects) -> Node:
    """Returns a node of objects."""
    return Node(path, Kinds(types=("object",), objects=constraints))


ANY_OBJECT = CoreSchema(typed("", "object"))
"""Any JSON object."""


def num_constraints(node: Node) -> int:
    """Returns how many fields constrain a node; 0 where it allows every value."""
    return (
        is_constrained(node.kinds)
        + (node.values is not None)
        + bool(node.any_of)
        + (node.ref is not None)
        + bool(node.all_of)
    )


def is_constrained(kinds: Kinds) -> bool:
    """Whether it constrains anything."""
    return kinds is not ANYTHING and (kinds.types is not None or kinds != ANYTHING)


def one_of_values(path: str, values: Iterable[Json]) -> Core:
    """Returns an enumeration of the values; False for none."""
    listed = tuple(values)
    return Node(path, values=listed) if listed else False


def listed(core: Core) -> tuple[Json, ...]:
    """Returns the values of a node that is an enumeration and nothing else; () for other nodes."""
    if isinstance(core, bool) or core.values is None:
        return ()
    return core.values if num_constraints(core) == 1 else ()


def any_of(path: str, options: Iterable[Core]) -> Core:
    """Returns the disjunction of the options."""
    left = tuple(option for option in options if option is not False)
    if any(option is True for option in left):
        return True
    if len(left) <= 1:
        return left[0] if left else False
    return Node(path, any_of=left)


def all_of(path: str, parts: Iterable[Core]) -> Core:
    """Returns the conjunction of the parts."""
    left = tuple(part for part in parts if part is not True)
    if any(part is False for part in left):
        return False
    if len(left) <= 1:
        return left[0] if left else True
    return Node(path, all_of=left)


def constrains_more_than_types(core: Core) -> bool:
    """Whether a node asks something of values but their type, or takes all of them."""
    if isinstance(core, bool):
        return core
    return core != Node(core.path, Kinds(types=core.kinds.types)) or core.kinds == ANYTHING


def shared_parts(core: Core) -> tuple[int, int, str | None] | None:
    """Returns the identities of a node's parts, without its path: nodes with equal ones allow the
    same values, as long as they live. None for a boolean, and for a node with `any_of` or
    `all_of`."""
    if isinstance(core, bool) or core.any_of or core.all_of:
        return None
    return id(core.kinds), id(core.values), core.ref


def refuse(keyword: str, path: str, why: str) -> UnsupportedGuide:
    """Returns the error for a keyword, of the subschema at `path`, that cannot be enforced."""
    path = f"{path}/{keyword}"
    return UnsupportedGuide(
        f"{keyword} at {path} cannot be enforced: {why}", keyword=keyword, path=path
    )
