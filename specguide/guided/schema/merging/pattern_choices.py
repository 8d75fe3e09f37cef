"""Owns choices between patterns as one pattern each: a conjunction of several such choices is then
an intersection of patterns, and not a product of options."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from specguide.guided.regex.tree import UnsupportedRegex
from specguide.guided.schema.core.nodes import Kinds, Node, Strings
from specguide.guided.schema.json_values import EVERY_TYPE
from specguide.guided.schema.merging.atom_sets import AtomSets
from specguide.guided.schema.merging.merge_kinds import Atom
from specguide.guided.schema.merging.merge_types import allowed, in_order
from specguide.guided.schema.merging.pattern_sets import Patterns, pattern_of_any


class PatternChoices:
    """The choices of one schema whose options constrain only types and patterns."""

    def __init__(self, sets: AtomSets) -> None:
        self._sets, self._patterns = sets, Patterns()
        self._found: dict[int, Atom | None] = {}  # by number of a choice

    def joined(self, atoms: list[Atom]) -> list[Atom]:
        """Returns atoms with the same instances, with each such choice as one atom."""
        return self._sets.each_once([self._one(atom) or atom for atom in atoms])

    def _one(self, atom: Atom) -> Atom | None:
        if not atom.any_of:
            return None
        number = self._sets.number(atom)
        if number not in self._found:
            self._found[number] = None
            with suppress(UnsupportedRegex):
                self._found[number] = self._of_choice(atom)
        return self._found[number]

    def _of_choice(self, choice: Atom) -> Atom | None:
        """Raises UnsupportedRegex for a pattern that is too large."""
        types: set[str] = set()
        patterns: list[str] = []
        takes_any_string = False
        for option in choice.any_of:
            atoms = self._sets.of_option(option)
            if atoms is None:
                continue
            atoms = self.joined(atoms)
            if not all(map(_has_only_patterns, atoms)):
                return None
            of_option = allowed(atoms)
            if "string" in of_option:
                pattern = self._patterns.common(_patterns_of(atoms), 0, None)
                if pattern is None:
                    of_option -= {"string"}
                elif pattern:
                    patterns.append(pattern)
                else:
                    takes_any_string = True
            types |= of_option
        if not types:
            return None
        if "number" in types:
            types.discard("integer")
        pattern_of_all = None if takes_any_string or not patterns else pattern_of_any(patterns)
        named = None if types == EVERY_TYPE else in_order(frozenset(types), [])
        return Node(choice.path, Kinds(named, strings=Strings(pattern=pattern_of_all)))


def _has_only_patterns(atom: Atom) -> bool:
    """Whether it constrains types and patterns, and nothing else."""
    strings = replace(atom.kinds.strings, pattern=None)
    others = replace(atom.kinds, types=None, strings=strings)
    return atom.values is None and not atom.any_of and others == Kinds()


def _patterns_of(atoms: list[Atom]) -> tuple[str, ...]:
    patterns = (atom.kinds.strings.pattern for atom in atoms)
    return tuple(dict.fromkeys(pattern for pattern in patterns if pattern is not None))
