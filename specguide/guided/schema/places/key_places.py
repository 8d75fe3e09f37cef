"""Owns what a guard must know of a core schema whose objects have their keys in any order.

A small grammar cannot remember which keys have come, so a guard follows the text beside the matcher
(`csrc/backends/key_matcher.h`): no key comes twice, and all required keys come. The guard
identifies a place by the path to it, of names and indices. Where a choice allows several objects at
a place, the keys so far tell which of them are still possible, and the guard requires what all of
these require. Keys that distinguish an object from the others there are tracked by the grammar.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import chain

from specguide.errors import UnsupportedGuide
from specguide.guided.budget import spend
from specguide.guided.schema.core.evaluate import schemas_of_property
from specguide.guided.schema.core.nodes import (
    Core,
    CoreSchema,
    Node,
    Objects,
    Tracked,
    refuse,
)
from specguide.guided.schema.json_values import Json
from specguide.guided.schema.places.spread import spread
from specguide.guided.schema.pruning.prune import prune

MAX_TRACKED = 8
_MAX_COUNTED = 100
_MAX_PLACES = 10_000
_MAX_OPTIONS = 64
_IN_ORDER = 'ask for key_order "schema"'


def key_places(schema: CoreSchema) -> tuple[CoreSchema, list[dict[str, Json]]]:
    """Returns the schema with what its grammar must track, and the fields of native.KeyPlace for
    each place, beginning with that of the whole text.

    Parts without an instance are removed: the shortest ends of such a grammar are unknown, and what
    must contain itself would never end. Raises UnsupportedGuide where the objects of a place cannot
    be distinguished, NoInstance where the schema has no instance.
    """
    written = prune(spread(schema))
    places = _Places(written)
    return replace(written, tracked=places.tracked), places.described


@dataclass(frozen=True)
class _Option:
    """The constraints of the keys of one object that a place allows; see native.KeyOption."""

    allowed: frozenset[str]
    required: frozenset[str]
    least: int
    most: int | None
    unnamed: str

    def fields(self) -> dict[str, Json]:
        return {
            "allowed": sorted(map(_spelt, self.allowed)),
            "required": sorted(map(_spelt, self.required)),
            "least": self.least,
            "most": self.most,
            "unnamed": self.unnamed,
        }


class _Places:
    """Numbers the places: sets of nodes that may apply to one value, without True."""

    def __init__(self, schema: CoreSchema) -> None:
        self.described: list[dict[str, Json]] = []
        self.tracked: dict[int, Tracked] = {}
        self._definitions = schema.definitions
        self._numbers: dict[tuple[frozenset[int], bool], int] = {}
        self._to_describe: list[tuple[list[Node], bool]] = []
        self._number([schema.root])
        while len(self.described) < len(self._to_describe):
            self.described.append(self._description(*self._to_describe[len(self.described)]))

    def _number(self, cores: Iterable[Core]) -> int:
        """The number of the place to which these cores may apply; -1 where any value is allowed."""
        nodes, takes_any = self._holding(cores)
        key = frozenset(map(id, nodes)), takes_any
        if self._to_describe and not any(map(_holds_more, nodes)):
            return -1
        if key not in self._numbers:
            if len(self._numbers) >= _MAX_PLACES:
                raise UnsupportedGuide(
                    f"objects with keys in any order may occur at more than {_MAX_PLACES} places; "
                    f"{_IN_ORDER}",
                    keyword="properties",
                )
            self._numbers[key] = len(self._numbers)
            self._to_describe.append((nodes, takes_any))
        return self._numbers[key]

    def _holding(self, cores: Iterable[Core]) -> tuple[list[Node], bool]:
        """The nodes that may apply, behind choices and references; whether any value is allowed."""
        nodes: dict[int, Node] = {}
        takes_any = False
        todo = list(cores)
        while todo:
            core = todo.pop()
            spend()
            takes_any |= core is True
            if isinstance(core, bool) or id(core) in nodes:
                continue
            nodes[id(core)] = core
            todo += core.any_of
            if core.ref is not None:
                todo.append(self._definitions[core.ref])
        return [node for node in nodes.values() if not _leads_on(node)], takes_any

    def _description(self, nodes: list[Node], takes_any: bool) -> dict[str, Json]:
        arrays = [node.kinds.arrays for node in nodes if node.kinds.may_be("array")]
        objects = [node for node in nodes if node.kinds.may_be("object")]
        constraints = [node.kinds.objects for node in objects]
        names = list(dict.fromkeys(chain.from_iterable(map(_named, constraints))))
        self._track(objects, names, takes_any)
        anything = [True] if takes_any else []
        unnamed = chain.from_iterable(
            (*one.patterns.values(), one.additional) for one in constraints
        )
        num_placed = max((len(one.prefix) for one in arrays), default=0)
        return {
            "options": [one.fields() for one in self._options(constraints, names, takes_any)],
            "names": {
                _spelt(name): self._number(
                    chain(anything, *(schemas_of_property(one, name) for one in constraints))
                )
                for name in names
            },
            "other": self._number(chain(anything, unnamed)),
            "prefix": [
                self._number([*anything, *(one.item(i) for one in arrays)])
                for i in range(num_placed)
            ],
            "rest": self._number([*anything, *(one.rest for one in arrays)]),
        }

    def _options(self, objects: list[Objects], names: list[str], takes_any: bool) -> list[_Option]:
        spend(len(objects) * len(names))
        options = [_option(option, names) for option in objects]
        if takes_any:
            options.append(_Option(frozenset(names), frozenset(), 0, None, "ANY"))
        return [option for option in dict.fromkeys(options) if option.required <= option.allowed]

    def _track(self, nodes: list[Node], names: list[str], takes_any: bool) -> None:
        """Notes the keys that distinguish the objects of a place."""
        options = self._options([node.kinds.objects for node in nodes], names, takes_any)
        if len(options) > _MAX_OPTIONS:
            why = (
                f"with keys in any order, {len(options)} kinds of objects are too many; {_IN_ORDER}"
            )
            raise refuse("anyOf", nodes[0].path, why)
        for node in nodes if len(options) > 1 else ():
            own = _option(node.kinds.objects, names)
            if not own.required <= own.allowed:
                continue  # it has no instance
            telling = _distinguishing(own, options)
            before = self.tracked.get(id(node.kinds.objects), Tracked())
            tracked = Tracked(
                tuple(dict.fromkeys((*before.names, *telling))),
                before.is_counted or _is_counted(own, options, telling),
            )
            _check_tracked(node, tracked, options)
            self.tracked[id(node.kinds.objects)] = tracked


def _option(objects: Objects, names: Iterable[str]) -> _Option:
    allowed = frozenset(name for name in names if False not in schemas_of_property(objects, name))
    unnamed = "NONE"
    if any(child is not False for child in objects.patterns.values()):
        unnamed = "SOME"
    elif objects.additional is not False:
        unnamed = "SOME" if objects.patterns else "ANY"
    least = max(objects.min_properties or 0, len(objects.required))
    most = objects.max_properties
    if most is not None and unnamed == "NONE" and most >= len(allowed):
        most = None
    return _Option(allowed, frozenset(objects.required), least, most, unnamed)


def _distinguishing(own: _Option, options: list[_Option]) -> list[str]:
    """Required keys of an object: once they have come, all objects that are still possible require
    its other required keys."""
    names: list[str] = []
    possible = options
    while True:
        common = frozenset.intersection(*(one.required for one in possible))
        missing = own.required - common - set(names)
        if not missing:
            return names
        spend(len(possible) * len(missing))
        name = min(missing, key=lambda one: (sum(one in other.allowed for other in possible), one))
        names.append(name)
        possible = [one for one in possible if name in one.allowed]


def _is_counted(own: _Option, options: list[_Option], names: list[str]) -> bool:
    """Whether the allowed number of keys depends on the object."""
    possible = [option for option in options if option.allowed.issuperset(names)]
    is_least = own.least > len(own.required) and any(
        option.least < own.least for option in possible
    )
    return is_least or any(option.most != own.most for option in options)


def _check_tracked(node: Node, tracked: Tracked, options: list[_Option]) -> None:
    """Raises UnsupportedGuide where a grammar cannot enforce it."""
    objects = node.kinds.objects
    if len(tracked.names) > MAX_TRACKED:
        why = (
            f"with keys in any order, more than {MAX_TRACKED} of its properties distinguish the "
            f"object from others that may take its place; {_IN_ORDER}"
        )
        raise refuse("required", node.path, why)
    common = frozenset.intersection(*(option.required for option in options))
    for keyword, bound in (
        ("minProperties", objects.min_properties),
        (
            "maxProperties",
            objects.max_properties,
        ),
    ):
        is_hard = tracked.names or (bound or 0) > _MAX_COUNTED
        if keyword == "maxProperties" and common:
            is_hard = True
        if bound is not None and is_hard and (tracked.is_counted or keyword == "maxProperties"):
            why = (
                "with keys in any order, other objects that may take its place have other numbers "
                f"of properties; {_IN_ORDER}"
            )
            raise refuse(keyword, node.path, why)


def _named(objects: Objects) -> Iterable[str]:
    return chain(objects.properties, objects.required)


def _spelt(name: str) -> str:
    """A key as it is written in a grammar."""
    return json.dumps(name, ensure_ascii=False)


def _leads_on(node: Node) -> bool:
    return bool(node.any_of) or node.ref is not None or node.values is not None


def _holds_more(node: Node) -> bool:
    return node.kinds.may_be("object") or node.kinds.may_be("array")
