"""Owns the merging of what holds at once: core schemas without `allOf` and without anything beside
`anyOf` and `$ref`.

A backend merges as it reads, and gives up where schemas that hold at once lead back to themselves,
or spell out to too much. Here what holds at once is a set of subschemas of the core; every set that
comes up becomes one definition, so there are only so many of them. The instances stay the same.
Sets that no value fits are taken out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from specguide.errors import UnsupportedGuide
from specguide.guided.budget import at_work, spend
from specguide.guided.schema.core import Core, CoreSchema, any_of
from specguide.guided.schema.document import TYPES
from specguide.guided.schema.evaluate import takes
from specguide.guided.schema.inhabited import Inhabited
from specguide.guided.schema.merge import merge_arrays, merge_numbers, merge_objects, merge_strings
from specguide.guided.schema.patterns import Patterns

MAX_SETS = 1_500
_COMPOSED = frozenset({"$ref", "allOf", "anyOf", "$defs"})
_WITH_CHILDREN = frozenset(
    {"anyOf", "properties", "patternProperties", "additionalProperties", "items", "prefixItems"}
)

Atom = Core
"""A core schema of an `anyOf` alone, or without `anyOf`, `allOf` and `$ref`."""


def merged(core: Core) -> Core:
    """The same instances, said without `allOf` and without siblings of `anyOf` and `$ref`.

    Raises UnsupportedGuide where there is no instance, or where what holds at once cannot be said
    or is too much.
    """
    conjunctions = Conjunctions(core.get("$defs", {}))
    root = conjunctions.build(conjunctions.atoms([core]), core.path)
    conjunctions.finish()
    inhabited = Inhabited(conjunctions.definitions)
    root = inhabited.pruned(root)
    if root is False:
        raise UnsupportedGuide("no value that can be generated fits the schema")
    if root is True:
        return Core(core.path)
    definitions = dict(
        _reached(
            root,
            {
                name: inhabited.pruned(schema)
                for name, schema in conjunctions.definitions.items()
                if name in inhabited.names
            },
        )
    )
    return Core(core.path, {**root, "$defs": definitions}) if definitions else root


class Conjunctions:
    """The sets of schemas that hold at once, each a definition that is written by and by."""

    def __init__(self, given: Mapping[str, CoreSchema]) -> None:
        self.definitions: dict[str, CoreSchema] = {}
        self.patterns = Patterns()
        self._given = given
        self._names: dict[frozenset[int], str] = {}
        self._atoms: dict[int, list[Atom]] = {}
        self._to_build: list[tuple[str, list[Atom], str]] = []

    def finish(self) -> None:
        """Writes the definitions that were asked for, and those that they ask for."""
        while self._to_build:
            name, atoms, path = self._to_build.pop()
            self.definitions[name] = self.build(atoms, path)

    def all(self, schemas: Iterable[CoreSchema], path: str) -> CoreSchema:
        """A schema of what fits all of `schemas`: itself where it is simple, else a reference."""
        atoms = self.atoms(schemas)
        if atoms is None:
            return False
        if not atoms:
            return True
        if all(_WITH_CHILDREN.isdisjoint(atom) for atom in atoms):
            return self.build(atoms, path)
        if not allowed(atoms):
            return False
        key = frozenset(map(id, atoms))
        if key not in self._names:
            self._names[key] = name = f"d{len(self._names)}"
            self._to_build.append((name, atoms, path))
            if len(self._names) > MAX_SETS:
                raise UnsupportedGuide(
                    f"the schema spells out to more than {MAX_SETS} combinations; make it smaller"
                )
        return Core(path, {"$ref": f"#/$defs/{self._names[key]}"})

    def atoms(self, schemas: Iterable[CoreSchema]) -> list[Atom] | None:
        """What holds at once, flat and each once, in the order it was found; None where one of
        `schemas` is False."""
        found: dict[int, Atom] = {}
        seen: set[int] = set()
        todo = list(schemas)[::-1]
        while todo:
            schema = todo.pop()
            spend()
            if schema is False:
                return None
            if schema is True or id(schema) in seen:
                continue
            seen.add(id(schema))
            for atom in self._own_atoms(schema):
                found.setdefault(id(atom), atom)
            todo += [*schema.get("allOf", ())][::-1]
            if "$ref" in schema:
                todo.append(self._given[schema["$ref"].rpartition("/")[2]])
        return list(found.values())

    def _own_atoms(self, schema: Core) -> list[Atom]:
        if _COMPOSED.isdisjoint(schema) or schema.keys() == {"anyOf"}:
            return [schema] if schema else []
        if id(schema) not in self._atoms:
            plain = Core(
                schema.path, {key: value for key, value in schema.items() if key not in _COMPOSED}
            )
            self._atoms[id(schema)] = ([plain] if plain else []) + (
                [Core(schema.path, anyOf=schema["anyOf"])] if "anyOf" in schema else []
            )
        return self._atoms[id(schema)]

    def build(self, atoms: list[Atom] | None, path: str) -> CoreSchema:
        """One schema for all the atoms."""
        if atoms is None:
            return False
        spend(4 + len(atoms))
        listed = next((atom for atom in atoms if "enum" in atom), None)
        if listed is not None:
            with at_work("enum", listed.path):
                values = [
                    value
                    for value in listed["enum"]
                    if all(takes(atom, value, self._given) for atom in atoms)
                ]
            return Core(listed.path, enum=values) if values else False
        choice = next((atom for atom in atoms if "anyOf" in atom), None)
        if choice is not None:
            with at_work("anyOf", choice.path):
                return self._choose(choice, [atom for atom in atoms if atom is not choice], path)
        with at_work("allOf", path):
            return self._merge(atoms, path)

    def _choose(self, choice: Atom, others: list[Atom], path: str) -> CoreSchema:
        """The options of one atom, each with all the others."""
        known = set(map(id, others))
        options: dict[str | int, CoreSchema] = {}
        for option in choice["anyOf"]:
            spend(2 + len(others) // 8)
            asked = self.atoms([option])
            if asked is not None and all(id(atom) in known for atom in asked):
                return self.all(others, path)
            schema = self.all([*others, option], path)
            options.setdefault(
                schema["$ref"] if isinstance(schema, Core) and "$ref" in schema else id(schema),
                schema,
            )
        return any_of(choice.path, options.values())

    def _merge(self, atoms: list[Atom], path: str) -> CoreSchema:
        types = allowed(atoms)
        core = Core(atoms[0].path if atoms else path)
        spend(8 + 2 * len(atoms))
        for kinds, merge in _MERGES:
            if types & kinds:
                part = merge(self, atoms, types, core.path)
                if part is None:
                    types -= kinds
                else:
                    core.update(part)
        if not types:
            return False
        if types != _EVERY_TYPE:
            named = _in_order(types, atoms)
            core = Core(core.path, {"type": named[0] if len(named) == 1 else named, **core})
        return core or True


_EVERY_TYPE = frozenset(TYPES)
_MERGES = (
    (frozenset({"number", "integer"}), merge_numbers),
    (frozenset({"string"}), merge_strings),
    (frozenset({"array"}), merge_arrays),
    (frozenset({"object"}), merge_objects),
)


def allowed(atoms: Iterable[Atom]) -> frozenset[str]:
    """The types of which a value may be that fits all the atoms, as far as is plain."""
    types = _EVERY_TYPE
    required: set[str] = set()
    forbidden: set[str] = set()
    for atom in atoms:
        spend(2 + (len(atom.get("required", ())) + len(atom.get("properties", ()))) // 8)
        if "type" in atom:
            named = {atom["type"]} if isinstance(atom["type"], str) else set(atom["type"])
            whole = named | {"number"} if "integer" in named else named
            types = frozenset(
                ("integer" if name == "number" and "number" not in named else name)
                for name in types
                if name in whole or (name == "integer" and "number" in named)
            )
        required.update(atom.get("required", ()))
        forbidden.update(
            name for name, child in atom.get("properties", {}).items() if child is False
        )
    return types - {"object"} if required & forbidden else types


def _in_order(types: frozenset[str], atoms: Iterable[Atom]) -> list[str]:
    """The types in the order in which the atoms name them."""
    named: Iterator[Any] = (atom["type"] for atom in atoms if "type" in atom)
    order = dict.fromkeys(
        name for value in named for name in ([value] if isinstance(value, str) else value)
    )
    return [name for name in dict.fromkeys((*order, *TYPES, "integer")) if name in types]


def _reached(
    root: CoreSchema, definitions: Mapping[str, CoreSchema]
) -> Iterator[tuple[str, CoreSchema]]:
    """The definitions that the root leads to."""
    seen: set[str] = set()
    todo: list[Any] = [root]
    while todo:
        spend()
        value = todo.pop()
        if isinstance(value, Core) and "$ref" in value:
            name = value["$ref"].rpartition("/")[2]
            if name not in seen:
                seen.add(name)
                todo.append(definitions[name])
                yield name, definitions[name]
        elif isinstance(value, Core):
            todo += [child for keyword, child in value.items() if keyword in _WITH_CHILDREN]
        elif isinstance(value, (dict, list)):
            todo += value.values() if isinstance(value, dict) else value
