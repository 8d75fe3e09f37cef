"""Owns the third pass: it merges conjunctions, so that core schemas have no `all_of`, and nothing
beside a choice or a reference.

Backends merge while they read, and give up on conjunctions that lead back to themselves or expand
to too much. Here a conjunction is a set of nodes of the core, and each set becomes one definition,
of which there are finitely many. The instances stay the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from specguide.errors import UnsupportedGuide
from specguide.guided.budget import at_work, kept_of, spend
from specguide.guided.schema.core.evaluate import takes
from specguide.guided.schema.core.nodes import (
    NO_ARRAYS,
    NO_NUMBERS,
    NO_OBJECTS,
    NO_STRINGS,
    Core,
    CoreSchema,
    Kinds,
    Node,
    any_of,
    num_constraints,
    one_of_values,
)
from specguide.guided.schema.json_values import EVERY_TYPE
from specguide.guided.schema.merging.atom_sets import AtomSets
from specguide.guided.schema.merging.clashes import Clashes
from specguide.guided.schema.merging.merge_kinds import (
    Atom,
    merge_arrays,
    merge_numbers,
    merge_objects,
    merge_strings,
)
from specguide.guided.schema.merging.merge_members import Members
from specguide.guided.schema.merging.merge_types import allowed, in_order
from specguide.guided.schema.merging.merge_weights import Weights, listed_properties
from specguide.guided.schema.merging.pattern_choices import PatternChoices
from specguide.guided.schema.merging.pattern_sets import Patterns

MAX_SETS = 1_200
MAX_ATOMS = 9_000
"""Limit of atoms in all sets together."""
_SPELLS_OUT = f"the schema spells out to more than {MAX_SETS} combinations; make it smaller"
_NUMERIC = frozenset({"number", "integer"})


def merge(
    schema: CoreSchema,
    most_ways: int | None = None,
    *,
    patterns_apart: bool = False,
    all_orders: bool = False,
) -> CoreSchema:
    """Returns a schema with the same instances, without `all_of`, and with nothing beside `any_of`
    and `ref`.

    most_ways:      keep only this many ways to fail a subschema, the simplest ones; instances get
                    lost. None: keep all
    patterns_apart: do not intersect the patterns of one string, and join each choice between
                    patterns into one; faster
    all_orders:     keep options whose instances another option has, with other orders of keys

    Raises UnsupportedGuide for a conjunction that the core cannot express or that is too large.
    """
    if isinstance(schema.root, bool):
        return schema
    known = kept_of(_Known, schema)
    if known.is_too_large and most_ways is None:
        raise _TooLarge(_SPELLS_OUT)
    conjunctions = _Conjunctions(
        schema.definitions, Patterns(patterns_apart), most_ways, all_orders
    )
    try:
        root = conjunctions.build(conjunctions.sets.of([schema.root]), schema.root.path)
        conjunctions.finish()
    except _TooLarge:
        known.is_too_large |= not all_orders
        raise
    return CoreSchema(root, conjunctions.definitions)


class _TooLarge(UnsupportedGuide):
    """Raised for conjunctions that make too many sets."""


class _Known:
    """What an earlier merge found out about a schema.

    is_too_large: with all ways to fail, it makes too many sets, whatever `patterns_apart` is
    """

    def __init__(self, _: CoreSchema) -> None:
        self.is_too_large = False


class _Conjunctions:
    """The conjunctions of one schema, as sets of atoms; each becomes a definition."""

    def __init__(
        self,
        given: Mapping[str, Core],
        patterns: Patterns,
        most_ways: int | None,
        all_orders: bool,
    ) -> None:
        self.definitions: dict[str, Core] = {}
        self.patterns = patterns
        self._given, self._most_ways, self._all_orders = given, most_ways, all_orders
        self._clashes = Clashes(given)
        self.sets = AtomSets(given)
        self._pattern_choices = PatternChoices(self.sets)
        self._number = self.sets.number
        self._weights = Weights()
        self._num_atoms = 0
        self._names: dict[frozenset[int] | tuple[int, ...], str] = {}  # by numbers of atoms
        self._leaves: dict[int, Core] = {}  # by numbers of atoms
        # By ids of nodes, which are held here, so that no other nodes get their ids.
        self._found: dict[tuple[str, tuple[int, ...]], tuple[tuple[Core, ...], Core]] = {}
        self._to_build: list[tuple[str, list[Atom], str]] = []
        self._members = Members(self.all)

    def finish(self) -> None:
        """Writes the definitions that were referenced, and those that they reference."""
        while self._to_build:
            name, atoms, path = self._to_build.pop()
            self.definitions[name] = self.build(atoms, path)

    def all(self, cores: Iterable[Core], path: str) -> Core:
        """Returns the conjunction of `cores`: the node itself if it is simple, else a reference."""
        conjuncts = tuple(cores)
        if len(conjuncts) == 1 and isinstance(conjuncts[0], bool):
            return conjuncts[0]
        key = path, tuple(map(id, conjuncts))
        if key not in self._found:
            atoms = self.sets.of(conjuncts)
            core = False if atoms is None else self._all_atoms(atoms, path)
            self._found[key] = conjuncts, core
        return self._found[key][1]

    def _all_atoms(self, atoms: list[Atom], path: str) -> Core:
        if not atoms:
            return True
        if not any(map(_has_children, atoms)):
            return self._leaf(atoms[0]) if len(atoms) == 1 else self.build(atoms, path)
        if not allowed(atoms):
            return False
        numbers = tuple(map(self._number, atoms))
        key = numbers if self._all_orders else frozenset(numbers)
        if key not in self._names:
            self._names[key] = name = f"d{len(self._names)}"
            self._to_build.append((name, atoms, path))
            self._num_atoms += len(atoms)
            if len(self._names) > MAX_SETS or self._num_atoms > MAX_ATOMS:
                raise _TooLarge(_SPELLS_OUT)
        return Node(path, ref=self._names[key])

    def _leaf(self, atom: Atom) -> Core:
        """The node of one atom without child nodes. It is built once for all atoms with the same
        constraints."""
        number = self._number(atom)
        if number not in self._leaves:
            self._leaves[number] = self.build([atom], atom.path)
        leaf = self._leaves[number]
        if isinstance(leaf, bool) or leaf.path == atom.path:
            return leaf
        return Node(atom.path, leaf.kinds, leaf.values, all_of=leaf.all_of)

    def build(self, atoms: list[Atom] | None, path: str) -> Core:
        """Returns the node of the atoms' conjunction. atoms: None: it has no instance"""
        if atoms is None:
            return False
        while choices := [atom for atom in atoms if atom.any_of]:
            spend(4 + len(atoms))
            if any(atom.values is not None for atom in atoms):
                break
            if len(choices) > 1 and self.patterns.is_loose:
                atoms = self._pattern_choices.joined(atoms)
                choices = [atom for atom in atoms if atom.any_of]
                if not choices:
                    break
            choice = min(choices, key=lambda one: one.is_failure)
            with at_work(f"the choice at {choice.path or 'the root'}", None):
                options = self._options(choice, atoms)
                if len(options) != 1:
                    return self._any(options, choice.path, path)
            (atoms,) = options
        spend(4 + len(atoms))
        listed = next((atom for atom in atoms if atom.values is not None), None)
        if listed is not None:
            with at_work("enum", listed.path):
                return self._fitting(listed, atoms)
        with _merging(atoms, path):
            return self._merge(atoms, path)

    def _fitting(self, listed: Atom, atoms: list[Atom]) -> Core:
        """The values of `listed` that are instances of all the atoms."""
        return one_of_values(
            listed.path,
            (
                value
                for value in listed.values or ()
                if all(takes(atom, value, self._given) for atom in atoms)
            ),
        )

    def _options(self, choice: Atom, atoms: list[Atom]) -> list[list[Atom]]:
        """The choice distributed over the other atoms: for each option, all atoms, with the
        option's in the place of the choice, as libraries order them. If the others imply an option,
        only the others."""
        others = [atom for atom in atoms if atom is not choice]
        place = next(i for i, atom in enumerate(atoms) if atom is choice)
        known = set(map(self._number, others))
        by_option: list[
            tuple[list[Atom], list[Atom]]
        ] = []  # an option's new atoms, and all its atoms
        for option in choice.any_of:
            spend(1 + len(others) // 8)
            own = self.sets.of_option(option)
            if own is None:
                continue
            new = [atom for atom in own if self._number(atom) not in known]
            if not new and not self._all_orders:
                return [others]
            by_option.append((new, own))
        spend(len(by_option))
        beside = self._clashes.beside(others)
        options = [way for way in by_option if not beside.clash(way[0])]
        if choice.is_failure and len(options) > (self._most_ways or len(options)):
            enumerated = listed_properties(others)
            options = sorted(options, key=lambda way: self._weights.of(way[0], enumerated))
            options = options[: self._most_ways]
        distributed = (
            ([*others[:place], *own, *others[place:]], len(new) < len(own)) for new, own in options
        )
        return [
            self.sets.each_once(atoms) if is_twice else atoms for atoms, is_twice in distributed
        ]

    def _any(self, options: list[list[Atom]], source: str, path: str) -> Core:
        """A choice between several sets, each once."""
        cores: dict[str | int, Core] = {}
        for atoms in options:
            core = self._all_atoms(atoms, path)
            ref = core.ref if isinstance(core, Node) else None
            cores.setdefault(id(core) if ref is None else ref, core)
        return any_of(source, cores.values())

    def _merge(self, atoms: list[Atom], path: str) -> Core:
        """The conjunction of atoms without choices and values, as one node."""
        types = allowed(atoms)
        path = atoms[0].path if atoms else path
        spend(8 + 2 * len(atoms))
        numbers = merge_numbers(atoms, types, path) if types & _NUMERIC else None
        strings = merge_strings(self.patterns, atoms, path) if "string" in types else None
        arrays = merge_arrays(self.all, atoms, path) if "array" in types else None
        objects = (
            merge_objects(self._members, self.patterns, atoms, path) if "object" in types else None
        )
        by_type = {
            **dict.fromkeys(_NUMERIC, numbers),
            "string": strings,
            "array": arrays,
            "object": objects,
        }
        types = frozenset(name for name in types if by_type.get(name, True) is not None)
        if not types:
            return False
        text, also = strings or (NO_STRINGS, ())
        kinds = Kinds(
            None if types == EVERY_TYPE else in_order(types, atoms),
            numbers or NO_NUMBERS,
            text,
            arrays or NO_ARRAYS,
            objects or NO_OBJECTS,
        )
        node = Node(path, kinds, all_of=also)
        return node if num_constraints(node) else True


def _merging(atoms: list[Atom], path: str) -> at_work:
    """The context for errors while atoms are merged."""
    if atoms and atoms[-1].path.startswith(f"{path}/allOf/"):
        return at_work("allOf", path)
    return at_work(f"what holds at once at {path or 'the root'}", None)


def _has_children(atom: Atom) -> bool:
    """Whether it has child nodes."""
    arrays, objects = atom.kinds.arrays, atom.kinds.objects
    return bool(
        atom.any_of
        or arrays.prefix
        or arrays.rest is not True
        or objects.properties
        or objects.patterns
        or objects.additional is not True
    )
