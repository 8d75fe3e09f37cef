"""Owns conjunctions as sets of atoms: nodes of kinds and values, and choices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from specguide.guided.budget import spend
from specguide.guided.schema.core.nodes import Core, Node, is_constrained, num_constraints
from specguide.guided.schema.core.sameness import Sameness
from specguide.guided.schema.merging.merge_kinds import Atom


class AtomSets:
    """Finds the atoms of nodes; those of a node once.

    given:  the definitions that nodes refer to
    number: returns an atom's number, which is the same for atoms with the same constraints
    """

    def __init__(self, given: Mapping[str, Core]) -> None:
        self._given = given
        self.number = Sameness().number
        # By id of a node. The options are held here, so that no other node gets their ids.
        self._own: dict[int, list[Atom]] = {}
        self._options: dict[int, tuple[Core, list[Atom] | None]] = {}

    def of(self, cores: Iterable[Core]) -> list[Atom] | None:
        """Returns the atoms of a conjunction, each once, in the order of discovery; None where one
        of `cores` is False."""
        atoms: dict[int, Atom] = {}
        seen: set[int] = set()
        todo = list(cores)[::-1]
        while todo:
            core = todo.pop()
            spend()
            if core is False:
                return None
            if core is True or id(core) in seen:
                continue
            seen.add(id(core))
            for atom in self._own_of(core):
                atoms.setdefault(self.number(atom), atom)
            todo += core.all_of[::-1]
            if core.ref is not None:
                todo.append(self._given[core.ref])
        return list(atoms.values())

    def of_option(self, option: Core) -> list[Atom] | None:
        """`of` for an option of a choice, remembered: it is combined with many others."""
        if id(option) not in self._options:
            self._options[id(option)] = option, self.of([option])
        return self._options[id(option)][1]

    def _own_of(self, node: Node) -> list[Atom]:
        """The atoms of a node's own fields: its kinds and values, and its choice."""
        if node.ref is None and not (node.any_of or node.all_of):
            return [node] if num_constraints(node) else []
        if id(node) not in self._own:
            atoms = []
            if node.values is not None or is_constrained(node.kinds):
                atoms.append(replace(node, any_of=(), ref=None, all_of=()))
            if node.any_of:
                choice = Node(node.path, any_of=node.any_of, is_failure=node.is_failure)
                atoms.append(node if num_constraints(node) == 1 else choice)
            self._own[id(node)] = atoms
        return self._own[id(node)]

    def each_once(self, atoms: list[Atom]) -> list[Atom]:
        """Returns the atoms without repetitions of the same constraints."""
        once: dict[int, Atom] = {}
        for atom in atoms:
            once.setdefault(self.number(atom), atom)
        return list(once.values())
