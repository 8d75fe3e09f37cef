"""Owns the places of a core schema at which arrays of distinct items may stand.

No grammar compares an array's items, so a guard follows the text beside the matcher
(`csrc/backends/distinct_matcher.h`). It knows a place by the way to it alone: by names and
indices. Where several subschemas may hold there, of a choice, the items differ if one asks so.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from typing import Any

from specguide.errors import UnsupportedGuide
from specguide.guided.budget import spend
from specguide.guided.schema.core.evaluate import asked_of
from specguide.guided.schema.core.longest_told import longest_told
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
    """What KnownItems has of each place, the first that of the whole text; none where no items must
    differ.

    Raises UnsupportedGuide where there are too many, or items could be used up before their array
    is long enough.
    """
    if not any(_asks(core) for core in all_nodes(schema)):
        return []
    return _Places(schema).found


def _asks(node: Node) -> bool:
    return node.kinds.arrays.is_distinct


class _Places:
    """A place is a set of nodes of which some may hold there, and at most all."""

    def __init__(self, schema: CoreSchema) -> None:
        self.found: list[dict[str, Json]] = []
        self._definitions = schema.definitions
        self._clashes = Clashes(schema.definitions)
        self._asking = _asking(schema)
        self._numbers: dict[frozenset[int], int] = {}
        self._to_describe: list[list[Node]] = []
        self._of_values: dict[tuple[Any, ...], Node] = {}
        self._number([schema.root])
        while len(self.found) < len(self._to_describe):
            self.found.append(self._described(self._to_describe[len(self.found)]))

    def _number(self, cores: Iterable[Core]) -> int:
        """The number of the place where these cores may hold; -1 where no items within must
        differ."""
        cores = list(cores)
        if self._asking.isdisjoint(map(id, cores)):
            return -1
        nodes = self._holding(cores)
        key = frozenset(map(id, nodes))
        if key not in self._numbers:
            if len(self._numbers) >= _MAX_PLACES:
                raise UnsupportedGuide(
                    f"arrays of distinct items may stand in more than {_MAX_PLACES} places",
                    keyword="uniqueItems",
                )
            self._numbers[key] = len(self._numbers)
            self._to_describe.append(nodes)
        return self._numbers[key]

    def _holding(self, cores: Iterable[Core]) -> list[Node]:
        """The nodes that hold, or may, with all that they lead to at the same value. Those are left
        out that do nothing but lead to others, so that one definition is one place."""
        found: dict[int, Node] = {}
        todo = list(cores)
        while todo:
            core = todo.pop()
            if isinstance(core, bool) or id(core) in found:
                continue
            found[id(core)] = core
            todo += core.any_of + core.all_of
            if core.ref is not None:
                todo.append(self._definitions[core.ref])
        spend(1 + len(found) // 4)
        return [one for one in found.values() if one.kinds is not ANYTHING or one.values]

    def _described(self, nodes: list[Node]) -> dict[str, Json]:
        arrays = [_counted(node.kinds.arrays) for node in nodes if node.kinds.may_be("array")]
        objects = [node.kinds.objects for node in nodes if node.kinds.may_be("object")]
        values = [value for node in nodes for value in node.values or ()]
        lists = [value for value in values if isinstance(value, list)]
        num_placed = max((len(one.prefix) for one in arrays), default=0)
        asking = [node for node in nodes if node.kinds.may_be("array") and _asks(node)]
        for node in asking:
            self._check_listed(node)
            _check_different(node.path, lists)
        told = _once_if_alike(one for one in arrays if one is not NO_ARRAYS)
        prefix = [
            [*(one.item(i) for one in arrays), *self._listed(one[i : i + 1] for one in lists)]
            for i in range(num_placed)
        ]
        rest = [*(one.rest for one in arrays), *self._listed(one[num_placed:] for one in lists)]
        room = self._room(asking[0].path, told, bool(lists)) if asking else "FREE"
        return {
            "is_distinct": bool(asking),
            "is_even": not lists and len(told) <= 1,
            "room": room,
            "endless": endless_openers(told[0].rest, self._definitions)
            if room == "ENDLESS"
            else "",
            "spare": self._spare(told, lists) if room == "FEW" else 0,
            "prefix": [self._number(items) for items in prefix],
            "rest": self._number(rest),
            **self._members(objects, [value for value in values if isinstance(value, dict)]),
        }

    def _members(self, objects: list[Objects], dicts: list[dict[str, Json]]) -> dict[str, Json]:
        """What is known of an object's values; of some objects the values are listed."""
        names = dict.fromkeys(
            name for one in (*(one.properties for one in objects), *dicts) for name in one
        )
        spend(len(names))
        unnamed = chain.from_iterable((*one.patterns.values(), one.additional) for one in objects)
        other = self._number(unnamed)
        properties = {
            name: self._number(
                [
                    *(child for one in objects for child in asked_of(one, name)),
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
        """The arrays and objects of some lists as one node, the same for the same ones."""
        found = [one for part in parts for one in part if isinstance(one, (list, dict))]
        if not found:
            return []
        node = Node("", values=tuple(found))
        return [self._of_values.setdefault(tuple(map(value_key, found)), node)]

    def _room(self, path: str, told: list[Arrays], has_lists: bool) -> str:
        """How many values items may have: "FREE", "ENDLESS" or "FEW".

        has_lists: some arrays are listed
        """
        for one in told:
            self._check_enough(path, one)
        if not has_lists and all(
            always_goes_on(item) for one in told for item in (*one.prefix, one.rest)
        ):
            return "FREE"
        is_endless = len(told) == 1 and not has_lists and self._count(told[0].rest) >= MANY
        return "ENDLESS" if is_endless else "FEW"

    def _spare(self, told: list[Arrays], lists: list[list[Json]]) -> int:
        """Characters of as many items as an array needs, were each the longest text that is told of
        an item or of a part of one."""
        num_needed = max((one.min_items or 1 for one in told), default=1)
        todo = [item for one in told for item in (*one.prefix, one.rest)]
        todo += self._listed([lists])
        return num_needed * max(map(longest_told, walk(todo, self._definitions)), default=0)

    def _check_listed(self, asking: Node) -> None:
        """Raises UnsupportedGuide where an array must be a listed one, too: which items those may
        have hangs on their places, of which nothing is known here."""
        if asking.all_of or asking.any_of:
            values = (value for node in self._holding([asking]) for value in node.values or ())
            if any(isinstance(value, list) and len(value) > 1 for value in values):
                raise refuse(
                    "uniqueItems", asking.path, "arrays are listed beside it; leave out either"
                )

    def _check_enough(self, path: str, asked: Arrays) -> None:
        for i, item in enumerate(asked.prefix):
            if not self._is_new(item, asked.prefix[:i]):
                raise refuse(
                    "uniqueItems",
                    path,
                    "items that are told by their place may run out of values; "
                    "list these in enums, or leave uniqueItems out",
                )
        least = asked.min_items or 0
        goes_on = least > max(1, len(asked.prefix))
        if goes_on and self._count(asked.rest) < min(least, MANY):
            raise refuse("uniqueItems", path, f"there may be no {least} different items")

    def _is_new(self, item: Core, before: Iterable[Core]) -> bool:
        """Whether an item repeats none of those before it, or need not, whatever of it there is."""
        return always_goes_on(item) or all(self._clashes.apart(item, one) for one in before)

    def _count(self, core: Core) -> int:
        return num_values(core, self._definitions)


def _counted(asked: Arrays) -> Arrays:
    """The arrays; where `max_items` leaves no room behind `prefix`, their `rest` is False."""
    is_full = asked.max_items is not None and asked.max_items <= len(asked.prefix)
    return replace(asked, rest=False) if is_full else asked


def _once_if_alike(arrays: Iterable[Arrays]) -> list[Arrays]:
    """The arrays; one of them where all ask the same."""
    found = list(arrays)
    return found[:1] if all(one == found[0] for one in found) else found


def _check_different(path: str, lists: Iterable[list[Json]]) -> None:
    """Raises UnsupportedGuide where a listed array that may stand there has an item twice."""
    if any(len({value_key(item) for item in one}) < len(one) for one in lists):
        raise refuse(
            "uniqueItems",
            path,
            "arrays with equal items are listed in its place; leave out either",
        )


def _asking(schema: CoreSchema) -> set[int]:
    """Nodes, by id, that ask for distinct items somewhere, or lead to one that does."""
    users: dict[int, list[int]] = {}
    found: list[int] = []
    for node in all_nodes(schema):
        if _asks(node):
            found.append(id(node))
        for child in leads_to(node, schema.definitions):
            users.setdefault(id(child), []).append(id(node))
    known = set(found)
    while found:
        for user in users.get(found.pop(), ()):
            if user not in known:
                known.add(user)
                found.append(user)
    return known
