"""Owns the places of a core schema at which arrays of distinct items may occur.

No grammar can compare an array's items, so a guard follows the text beside the matcher
(`csrc/backends/distinct_matcher.h`). The guard identifies a place by the path to it, of names and
indices. Where a choice allows several subschemas at a place, its items are distinct if one of them
requires it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from typing import Any

from specguide.errors import UnsupportedGuide
from specguide.guided.budget import spend
from specguide.guided.schema.core.evaluate import schemas_of_property
from specguide.guided.schema.core.longest_listed import longest_listed
from specguide.guided.schema.core.nodes import (
    ANYTHING,
    NO_ARRAYS,
    Arrays,
    Core,
    CoreSchema,
    Node,
    Objects,
    refuse,
)
from specguide.guided.schema.core.num_values import (
    MANY,
    always_goes_on,
    endless_openers,
    num_values,
)
from specguide.guided.schema.core.walk import all_nodes, leads_to, walk
from specguide.guided.schema.json_values import Json, value_key
from specguide.guided.schema.merging.clashes import Clashes

_MAX_PLACES = 2_000


def distinct_places(schema: CoreSchema) -> list[dict[str, Json]]:
    """Returns the fields of KnownItems for each place, beginning with that of the whole text; []
    for a schema without distinct items.

    Raises UnsupportedGuide for too many places, and where an array may run out of distinct items
    before it is long enough.
    """
    if not any(_is_distinct(core) for core in all_nodes(schema)):
        return []
    return _Places(schema).found


def _is_distinct(node: Node) -> bool:
    return node.kinds.arrays.is_distinct


class _Places:
    """Numbers the places: sets of nodes that may apply to one value."""

    def __init__(self, schema: CoreSchema) -> None:
        self.found: list[dict[str, Json]] = []
        self._definitions = schema.definitions
        self._clashes = Clashes(schema.definitions)
        self._leading_to_distinct = _leading_to_distinct(schema)
        self._numbers: dict[frozenset[int], int] = {}
        self._to_describe: list[list[Node]] = []
        self._of_values: dict[tuple[Any, ...], Node] = {}
        self._number([schema.root])
        while len(self.found) < len(self._to_describe):
            self.found.append(self._described(self._to_describe[len(self.found)]))

    def _number(self, cores: Iterable[Core]) -> int:
        """The number of the place to which these cores may apply; -1 where it has no distinct
        items inside."""
        cores = list(cores)
        if self._leading_to_distinct.isdisjoint(map(id, cores)):
            return -1
        nodes = self._holding(cores)
        key = frozenset(map(id, nodes))
        if key not in self._numbers:
            if len(self._numbers) >= _MAX_PLACES:
                raise UnsupportedGuide(
                    f"arrays with uniqueItems may occur at more than {_MAX_PLACES} places; make "
                    "the schema smaller, or leave uniqueItems out",
                    keyword="uniqueItems",
                )
            self._numbers[key] = len(self._numbers)
            self._to_describe.append(nodes)
        return self._numbers[key]

    def _holding(self, cores: Iterable[Core]) -> list[Node]:
        """The nodes that may apply to a value, with all that they lead to. Nodes that only lead to
        others are left out, so that a definition makes one place."""
        nodes: dict[int, Node] = {}
        todo = list(cores)
        while todo:
            core = todo.pop()
            if isinstance(core, bool) or id(core) in nodes:
                continue
            nodes[id(core)] = core
            todo += core.any_of + core.all_of
            if core.ref is not None:
                todo.append(self._definitions[core.ref])
        spend(1 + len(nodes) // 4)
        return [node for node in nodes.values() if node.kinds is not ANYTHING or node.values]

    def _described(self, nodes: list[Node]) -> dict[str, Json]:
        arrays = [_counted(node.kinds.arrays) for node in nodes if node.kinds.may_be("array")]
        objects = [node.kinds.objects for node in nodes if node.kinds.may_be("object")]
        values = [value for node in nodes for value in node.values or ()]
        lists = [value for value in values if isinstance(value, list)]
        num_placed = max((len(one.prefix) for one in arrays), default=0)
        distinct = [node for node in nodes if node.kinds.may_be("array") and _is_distinct(node)]
        for node in distinct:
            self._check_listed(node)
            _check_different(node.path, lists)
        different = _once_if_alike(one for one in arrays if one is not NO_ARRAYS)
        prefix = [
            [*(one.item(i) for one in arrays), *self._listed(one[i : i + 1] for one in lists)]
            for i in range(num_placed)
        ]
        rest = [*(one.rest for one in arrays), *self._listed(one[num_placed:] for one in lists)]
        room = self._room(distinct[0].path, different, bool(lists)) if distinct else "FREE"
        return {
            "is_distinct": bool(distinct),
            "is_even": not lists and len(different) <= 1,
            "room": room,
            "endless": endless_openers(different[0].rest, self._definitions)
            if room == "ENDLESS"
            else "",
            "spare": self._spare(different, lists) if room == "FEW" else 0,
            "prefix": [self._number(items) for items in prefix],
            "rest": self._number(rest),
            **self._members(objects, [value for value in values if isinstance(value, dict)]),
        }

    def _members(self, objects: list[Objects], dicts: list[dict[str, Json]]) -> dict[str, Json]:
        """The places of an object's properties. dicts: enumerated objects"""
        names = dict.fromkeys(
            name for one in (*(one.properties for one in objects), *dicts) for name in one
        )
        spend(len(names))
        unnamed = chain.from_iterable((*one.patterns.values(), one.additional) for one in objects)
        other = self._number(unnamed)
        properties = {
            name: self._number(
                [
                    *(child for one in objects for child in schemas_of_property(one, name)),
                    *self._listed([one[name]] for one in dicts if name in one),
                ]
            )
            for name in names
        }
        return {
            "properties": {json.dumps(name): at for name, at in properties.items() if at != other},
            "other": other,
        }

    def _listed(self, parts: Iterable[list[Json]]) -> list[Core]:
        """The arrays and objects in some lists as one node; the same node for equal ones."""
        containers = [value for part in parts for value in part if isinstance(value, (list, dict))]
        if not containers:
            return []
        node = Node("", values=tuple(containers))
        return [self._of_values.setdefault(tuple(map(value_key, containers)), node)]

    def _room(self, path: str, arrays: list[Arrays], has_lists: bool) -> str:
        """The number of values that items may have: "FREE", "ENDLESS" or "FEW".

        has_lists: some arrays are enumerated
        """
        for one in arrays:
            self._check_enough(path, one)
        if not has_lists and all(
            always_goes_on(item) for one in arrays for item in (*one.prefix, one.rest)
        ):
            return "FREE"
        is_endless = len(arrays) == 1 and not has_lists and self._count(arrays[0].rest) >= MANY
        return "ENDLESS" if is_endless else "FEW"

    def _spare(self, arrays: list[Arrays], lists: list[list[Json]]) -> int:
        """The number of items that an array needs, times the length of the longest text that an
        item or a part of one lists, in characters."""
        num_needed = max((one.min_items or 1 for one in arrays), default=1)
        todo = [item for one in arrays for item in (*one.prefix, one.rest)]
        todo += self._listed([lists])
        return num_needed * max(map(longest_listed, walk(todo, self._definitions)), default=0)

    def _check_listed(self, distinct: Node) -> None:
        """Raises UnsupportedGuide for an array that must also be one of several enumerated ones:
        their items depend on the position, which is not followed here."""
        if distinct.all_of or distinct.any_of:
            values = (value for node in self._holding([distinct]) for value in node.values or ())
            if any(isinstance(value, list) and len(value) > 1 for value in values):
                raise refuse(
                    "uniqueItems",
                    distinct.path,
                    "an enum or const lists arrays beside it; leave out either",
                )

    def _check_enough(self, path: str, arrays: Arrays) -> None:
        for i, item in enumerate(arrays.prefix):
            if not self._is_new(item, arrays.prefix[:i]):
                raise refuse(
                    "uniqueItems",
                    path,
                    "the items of prefixItems may run out of distinct values; list their values in "
                    "enums, or leave uniqueItems out",
                )
        least = arrays.min_items or 0
        goes_on = least > max(1, len(arrays.prefix))
        if goes_on and self._count(arrays.rest) < min(least, MANY):
            why = f"its items may have fewer than {least} different values; lower minItems"
            raise refuse("uniqueItems", path, why)

    def _is_new(self, item: Core, before: Iterable[Core]) -> bool:
        """Whether an item can always differ from those before it, however it begins."""
        return always_goes_on(item) or all(self._clashes.apart(item, earlier) for earlier in before)

    def _count(self, core: Core) -> int:
        return num_values(core, self._definitions)


def _counted(arrays: Arrays) -> Arrays:
    """The arrays, with `rest` False if `max_items` allows no items after `prefix`."""
    is_full = arrays.max_items is not None and arrays.max_items <= len(arrays.prefix)
    return replace(arrays, rest=False) if is_full else arrays


def _once_if_alike(arrays: Iterable[Arrays]) -> list[Arrays]:
    """The arrays; only one of them if all are equal."""
    found = list(arrays)
    return found[:1] if all(one == found[0] for one in found) else found


def _check_different(path: str, lists: Iterable[list[Json]]) -> None:
    """Raises UnsupportedGuide for an enumerated array in which an item occurs twice."""
    if any(len({value_key(item) for item in array}) < len(array) for array in lists):
        raise refuse(
            "uniqueItems",
            path,
            "an enum or const lists an array with equal items in its place; leave out either",
        )


def _leading_to_distinct(schema: CoreSchema) -> set[int]:
    """The ids of nodes that require distinct items, or lead to a node that does."""
    users: dict[int, list[int]] = {}
    todo: list[int] = []
    for node in all_nodes(schema):
        if _is_distinct(node):
            todo.append(id(node))
        for child in leads_to(node, schema.definitions):
            users.setdefault(id(child), []).append(id(node))
    known = set(todo)
    while todo:
        for user in users.get(todo.pop(), ()):
            if user not in known:
                known.add(user)
                todo.append(user)
    return known
