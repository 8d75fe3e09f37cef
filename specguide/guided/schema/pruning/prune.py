"""Owns the fourth pass: it removes parts and definitions that have no instance. It does not merge
conjunctions, so some such parts may stay.

Backends reject a whole schema if a part that matters has no instance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from specguide.errors import UnsupportedGuide
from specguide.guided.budget import spend
from specguide.guided.schema.core.evaluate import schemas_of_property
from specguide.guided.schema.core.nodes import (
    NO_ARRAYS,
    NO_OBJECTS,
    Arrays,
    Core,
    CoreSchema,
    Kinds,
    Node,
    Objects,
    all_of,
    any_of,
    num_constraints,
)
from specguide.guided.schema.core.walk import children
from specguide.guided.schema.json_values import TYPES

NONE_FITS = "no value that can be generated fits the schema"


class NoInstance(UnsupportedGuide):
    """A schema has no instance that can be generated."""


def prune(schema: CoreSchema) -> CoreSchema:
    """Returns the schema without parts that have no instance, and without definitions that it does
    not lead to.

    Raises NoInstance for a schema without an instance.
    """
    inhabited = _Inhabited(schema.definitions)
    root = inhabited.pruned(schema.root)
    if root is False:
        raise NoInstance(NONE_FITS)
    definitions = {name: inhabited.pruned(schema.definitions[name]) for name in inhabited.names}
    return CoreSchema(root, _reached(root, definitions))


class _Inhabited:
    """The definitions of a schema that have an instance. names: of these, a least fixed point, in
    the schema's order"""

    def __init__(self, definitions: Mapping[str, Core]) -> None:
        self._known: set[str] = set()
        self._found: dict[int, Core] = {}  # by id of a node, which the schema holds
        left = list(definitions)[::-1]  # a definition mostly refers to later ones
        num_left = len(left) + 1
        while len(left) < num_left:
            num_left = len(left)
            left = [name for name in left if not self._add(name, definitions[name])]
        self.names = [name for name in definitions if name in self._known]

    def _add(self, name: str, core: Core) -> bool:
        """Whether a definition has an instance; if so, notes its name."""
        has_instance = self._has_instance(core)
        if has_instance:
            self._known.add(name)
        return has_instance

    def _has_instance(self, core: Core) -> bool:
        spend(2)
        if isinstance(core, bool):
            return core
        if core.ref is not None and core.ref not in self._known:
            return False
        if core.any_of and not any(map(self._has_instance, core.any_of)):
            return False
        if not all(map(self._has_instance, core.all_of)):
            return False
        if core.values is not None:
            return True
        kinds = core.kinds
        return any(_has_instance_of(name, kinds, self._has_instance) for name in _types(kinds))

    def pruned(self, core: Core) -> Core:
        """Returns a node without parts that have no instance; False for one without an instance."""
        if isinstance(core, bool):
            return core
        known = self._found.get(id(core))
        if known is None:
            known = self._found[id(core)] = self._pruned(core)
        return known

    def _pruned(self, core: Node) -> Core:
        spend(4)
        if core.ref is not None and core.ref not in self._known:
            return False
        if core.any_of and num_constraints(core) == 1:
            return any_of(core.path, map(self.pruned, core.any_of))
        kinds = core.kinds if core.values is not None else self._pruned_kinds(core.kinds)
        if kinds is core.kinds and self._is_whole((*core.any_of, *core.all_of)):
            return core
        choice = any_of(core.path, map(self.pruned, core.any_of)) if core.any_of else True
        beside = all_of(core.path, [choice, *map(self.pruned, core.all_of)])
        if beside is False or not _types(kinds):
            return False
        others = () if beside is True else (beside,)
        return replace(core, kinds=kinds, any_of=(), all_of=others)

    def _is_whole(self, cores: Sequence[Core]) -> bool:
        """Whether pruning changes none of the cores."""
        return all(self.pruned(core) is core for core in cores)

    def _pruned_kinds(self, kinds: Kinds) -> Kinds:
        if kinds.arrays is NO_ARRAYS and kinds.objects is NO_OBJECTS:
            return kinds
        types = _types(kinds)
        arrays, objects = self._pruned_arrays(kinds.arrays), self._pruned_objects(kinds.objects)
        pruned = kinds
        if arrays is not kinds.arrays or objects is not kinds.objects:
            pruned = Kinds(kinds.types, kinds.numbers, kinds.strings, arrays, objects)
        left = tuple(name for name in types if _has_instance_of(name, pruned, _is_left))
        return pruned if len(left) == len(types) else replace(pruned, types=left)

    def _pruned_arrays(self, arrays: Arrays) -> Arrays:
        if arrays is NO_ARRAYS:
            return arrays
        if False not in arrays.prefix and self._is_whole((*arrays.prefix, arrays.rest)):
            return arrays
        rest = self.pruned(arrays.rest)
        prefix = tuple(map(self.pruned, arrays.prefix))
        if False in prefix:  # the array ends before this item
            prefix, rest = prefix[: prefix.index(False)], False
        return replace(arrays, prefix=prefix, rest=rest)

    def _pruned_objects(self, objects: Objects) -> Objects:
        if objects is NO_OBJECTS:
            return objects
        named = objects.properties.values()
        if self._is_whole((*named, *objects.patterns.values(), objects.additional)):
            return objects
        return Objects(
            {name: self.pruned(child) for name, child in objects.properties.items()},
            {name: self.pruned(child) for name, child in objects.patterns.items()},
            self.pruned(objects.additional),
            objects.required,
            objects.min_properties,
            objects.max_properties,
        )


def _is_left(pruned: Core) -> bool:
    return pruned is not False


def _has_instance_of(name: str, kinds: Kinds, has_instance: Callable[[Core], bool]) -> bool:
    """Whether a value of a type exists. has_instance: of the parts"""
    if name == "array":
        num_items = kinds.arrays.min_items or 0
        prefix = kinds.arrays.prefix[:num_items]
        return all(map(has_instance, prefix)) and (
            len(prefix) == num_items or has_instance(kinds.arrays.rest)
        )
    if name == "object":
        spend(len(kinds.objects.required) // 8)
        return _has_object(kinds.objects, has_instance)
    return True


def _has_object(objects: Objects, has_instance: Callable[[Core], bool]) -> bool:
    """Whether the required properties have values, and enough others do."""
    properties = objects.properties
    required = (schemas_of_property(objects, name) for name in objects.required)
    if not all(map(has_instance, chain.from_iterable(required))):
        return False
    if not objects.min_properties or any(map(has_instance, objects.patterns.values())):
        return True
    return has_instance(objects.additional) or objects.min_properties <= sum(
        map(has_instance, properties.values())
    )


def _types(kinds: Kinds) -> tuple[str, ...]:
    return TYPES if kinds.types is None else kinds.types


def _reached(root: Core, definitions: Mapping[str, Core]) -> dict[str, Core]:
    """The definitions that the root leads to."""
    reached: dict[str, Core] = {}
    todo: list[Core] = [root]
    seen: set[int] = set()
    while todo:
        spend()
        core = todo.pop()
        if isinstance(core, bool) or id(core) in seen:
            continue
        seen.add(id(core))
        parts = (*core.all_of, *children(core))
        todo += [child for child in parts if id(child) not in seen]
        if core.ref is not None and core.ref not in reached:
            reached[core.ref] = definitions[core.ref]
            todo.append(definitions[core.ref])
    return reached
