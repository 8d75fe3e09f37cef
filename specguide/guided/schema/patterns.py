"""Owns what a core's patterns match: one of them, what several have in common, and patterns cut so
that no two of them overlap."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import chain, combinations, count
from math import inf
from operator import and_
from typing import Protocol

from specguide.errors import UnsupportedGuide
from specguide.guided.budget import at_work, kept, know
from specguide.guided.regex.automaton import Automaton, automaton
from specguide.guided.regex.both import match_one_text, together
from specguide.guided.regex.first import First, first_of
from specguide.guided.regex.letters import NOWHERE, Alphabet, SideBySide
from specguide.guided.regex.nfa import text_matcher
from specguide.guided.regex.samples import samples
from specguide.guided.regex.tree import (
    ANY_CHAR,
    MAX_CHARS,
    Both,
    Repeat,
    UnsupportedRegex,
    is_endless,
    least_length,
    literals,
)
from specguide.guided.regex.tree import Node as Regex
from specguide.guided.regex.whole import searched
from specguide.guided.schema.pattern_text import whole_pattern

MAX_NAMES = 64
"""Up to so many names that a pattern matches are few: they may be written out as properties."""
MAX_WORK = 15_000
MAX_LOOKS = 25_000
"""So many states of several automata at once are looked at for a text that all of them take."""
_MAX_COUNTED = 200
_MAX_CELLS = 32
_MOST_PARTS = 4
_EMPTY = Automaton(Alphabet(), (), frozenset())

Cell = tuple[str, frozenset[str]]
"""A pattern, and those of the given patterns that it is part of."""


def pattern_automaton(pattern: str) -> Automaton:
    """The strings that a core's `pattern` matches. Raises UnsupportedRegex where there are too many
    states."""
    found = _pattern_automaton(pattern)
    if isinstance(found, UnsupportedRegex):
        raise UnsupportedRegex(str(found))
    return found


@kept
def _pattern_automaton(pattern: str) -> Automaton | UnsupportedRegex:
    """That there are too many states is found out once, too."""
    try:
        return automaton(searched(pattern))
    except UnsupportedRegex as error:
        return error


@kept
def _all_of(patterns: tuple[str, ...]) -> Automaton:
    """What all of several patterns match. Raises UnsupportedRegex where there are too many
    states."""
    first = pattern_automaton(patterns[0])
    return first if len(patterns) == 1 else _all_of(patterns[:-1]) & pattern_automaton(patterns[-1])


@kept
def num_matches(pattern: str, most: int) -> int:
    """How many strings it matches, or `most` where there are more. Raises UnsupportedRegex as
    `pattern_automaton`."""
    if is_endless(searched(pattern)):
        return most
    return min(most, pattern_automaton(pattern).num_texts(most))


def has_few_names(pattern: str) -> bool:
    """Whether it matches MAX_NAMES strings at most. Raises UnsupportedRegex as
    `pattern_automaton`."""
    return num_matches(pattern, MAX_NAMES + 1) <= MAX_NAMES


def pattern_matches(pattern: str, text: str) -> bool:
    """Whether a core's `pattern` matches a string. Raises UnsupportedGuide for absurd
    repetitions."""
    try:
        return pattern_matcher(pattern).matches(text)
    except UnsupportedRegex as error:
        raise UnsupportedGuide(str(error), keyword="pattern") from error


class Matcher(Protocol):
    """Matches whole texts."""

    def matches(self, text: str) -> bool:
        """Whether it matches the whole text."""
        ...


@kept
def pattern_matcher(pattern: str) -> Matcher:
    """Matches what a core's `pattern` matches."""
    return text_matcher(searched(pattern))


@kept
def _first_of(pattern: str) -> First:
    return first_of(searched(pattern))


@kept
def have_common_text(patterns: tuple[str, ...], least: int, most: int | None) -> bool:
    """Whether a string of `least` to `most` characters matches all of a core's patterns. Raises
    UnsupportedRegex where it takes too long to find out."""
    first = reduce(and_, map(_first_of, patterns))
    if not first.chars and not (first.may_be_empty and least == 0):
        return False
    if _have_sample(patterns, least, most):
        return True
    try:
        found = [pattern_automaton(pattern) for pattern in patterns]
    except UnsupportedRegex:  # some are large; what they have in common may be small
        return match_one_text((*map(searched, patterns), Repeat(ANY_CHAR, least, most)))
    if not all(one.rows for one in found):
        return False
    together = SideBySide([(one.alphabet, one.rows) for one in found])
    states, seen, num_looked = {(0,) * len(found)}, set[tuple[int, ...]](), 0
    for length in count():
        if not states or (most is not None and length > most):
            return False
        if length >= least:
            if any(_all_accept(found, state) for state in states):
                return True
            states -= seen
            seen |= states
        num_looked += 1 + len(states)
        if num_looked > MAX_LOOKS:
            raise UnsupportedRegex("the schema compares too many patterns with each other")
        after = chain.from_iterable(map(together.after, states))
        states = {state for state in set(after) if NOWHERE not in state}
    return False


def _have_sample(patterns: tuple[str, ...], least: int, most: int | None) -> bool:
    """Whether one of a few texts of each pattern is such a string."""
    return any(
        least <= len(text) <= (len(text) if most is None else most)
        and all(pattern_matches(one, text) for one in patterns)
        for pattern in patterns
        for text in samples(searched(pattern), least)
    )


def _is_apart(pattern: str, names: list[str]) -> bool:
    """Whether a pattern plainly matches some string and none of the names, which needs no
    automaton."""
    node = searched(pattern)
    has_text = not isinstance(node, Both) and least_length(node) < inf
    return has_text and not any(pattern_matches(pattern, name) for name in names)


def _all_accept(found: list[Automaton], states: tuple[int, ...]) -> bool:
    return all(state in one.accepting for one, state in zip(found, states, strict=True))


def _checked(text: str) -> str:
    if len(text) > MAX_CHARS:
        raise UnsupportedRegex("what regular expressions have in common is too long to write down")
    return text


def _always(_: frozenset[str]) -> bool:
    return True


def _by_parts(
    patterns: list[str], names: list[str], may_come: Callable[[frozenset[str]], bool]
) -> list[Cell]:
    """The cells of a few patterns, each written by its parts. Raises UnsupportedRegex where one
    that may come cannot be found soon."""
    cells = []
    parts = chain.from_iterable(combinations(patterns, num) for num in range(1, len(patterns) + 1))
    for some in parts:
        if may_come(key := frozenset(some)):
            node = _alone_in_common(some, [one for one in patterns if one not in some], names)
            if isinstance(node, Both) or least_length(node) < inf:
                cells.append((_checked(whole_pattern(node)), key))
    return cells


def _alone_in_common(patterns: tuple[str, ...], others: list[str], names: list[str]) -> Regex:
    """What all of the patterns match, but none of the others, and but for the names. Raises
    UnsupportedRegex where that cannot be found soon."""
    matched = [name for name in names if all(pattern_matches(one, name) for one in patterns)]
    but = [*map(searched, others), *([literals(matched)] if matched else [])]
    return together(list(map(searched, patterns)), but, is_exact=True)


def _know_apart(cells: list[str]) -> None:
    for pair in combinations(cells, 2):
        know(have_common_text, False, pair, 0, None)


class Patterns:
    """The patterns of one schema. After MAX_WORK states of automata everything raises
    UnsupportedRegex.

    is_loose: what several have in common is not looked for
    """

    def __init__(self, is_loose: bool = False) -> None:
        self.is_loose = is_loose
        self._work = 0
        self._common: dict[tuple[tuple[str, ...], int, int | None], str | None] = {}

    def common(self, patterns: tuple[str, ...], least: int, most: int | None) -> str | None:
        """One pattern for all, "" where there is none; None where no string of `least` to `most`
        characters matches.

        Raises UnsupportedRegex where that takes too many states.
        """
        if len(patterns) <= 1:
            return patterns[0] if patterns else ""
        if self.is_loose:
            raise UnsupportedRegex("what several patterns have in common is not looked for")
        key = patterns, least, most
        if key not in self._common:
            with at_work("pattern", ""):
                self._common[key] = self._intersection(*key)
        return self._common[key]

    def _intersection(self, patterns: tuple[str, ...], least: int, most: int | None) -> str | None:
        both = pattern_automaton(patterns[0])
        for num in range(2, len(patterns) + 1):
            both = self._counted(_all_of(patterns[:num]))
        sized = both
        if max(least, most or 0) <= _MAX_COUNTED and (least or most is not None):
            sized = self._counted(both & automaton(Repeat(ANY_CHAR, least, most)))
        return None if sized.is_empty else self._text(both)

    def cells(
        self,
        patterns: list[str],
        names: list[str],
        may_come: Callable[[frozenset[str]], bool],
    ) -> list[Cell]:
        """Patterns that do not overlap and match none of `names`, but together what `patterns`
        match, without those of which `may_come` says so by what they are part of.

        Raises UnsupportedRegex where that takes too many states, or they overlap in too many ways.
        """
        if len(patterns) == 1 and _is_apart(patterns[0], names):
            alone = frozenset(patterns)
            return [(patterns[0], alone)] if may_come(alone) else []
        try:
            return self._cut(patterns, names, may_come)
        except UnsupportedRegex:
            if len(patterns) > _MOST_PARTS:
                raise
            found = _by_parts(patterns, names, may_come)
        _know_apart([text for text, _ in found])
        return found

    def _cut(
        self,
        patterns: list[str],
        names: list[str],
        may_come: Callable[[frozenset[str]], bool],
    ) -> list[Cell]:
        """`cells`, from automata. The last pattern leaves no rests that may not come: of two long
        patterns these may be too large."""
        cells: list[tuple[Automaton, tuple[str, ...]]] = []
        for number, pattern in enumerate(patterns, 1):
            may_stay = may_come if number == len(patterns) else _always
            stays_alone = may_stay(frozenset((pattern,)))
            cut, left = [], pattern_automaton(pattern)
            matched = [name for name in names if left.matches(name)]
            if matched:
                left = self._counted(left - automaton(literals(matched)))
            for cell, texts in cells:
                common = left if left.is_empty else self._counted(cell & left)
                if not common.is_empty:
                    cut.append((common, (*texts, pattern)))
                if may_stay(frozenset(texts)):
                    rest = self._less(cell, left, common)
                    cut += [] if rest.is_empty else [(rest, texts)]
                if stays_alone:
                    left = self._less(left, cell, common)
            cells = cut + ([] if left.is_empty or not stays_alone else [(left, (pattern,))])
            if len(cells) > _MAX_CELLS:
                raise UnsupportedRegex(f"the patterns overlap in more than {_MAX_CELLS} ways")
        known = {pattern_automaton(pattern): pattern for pattern in reversed(patterns)}
        found = [
            (known.get(cell) or self._cell_text(cell, texts, patterns, names), frozenset(texts))
            for cell, texts in cells
            if may_come(frozenset(texts))
        ]
        _know_apart([text for text, _ in found])
        return found

    def _less(self, one: Automaton, other: Automaton, common: Automaton) -> Automaton:
        """What one of two automata has alone. common: what both have"""
        if common.is_empty:
            return one
        return _EMPTY if common == one else self._counted(one - other)

    def _cell_text(
        self, cell: Automaton, texts: tuple[str, ...], patterns: list[str], names: list[str]
    ) -> str:
        """A pattern of the names that match `texts` alone, written by its parts where that would
        be long."""
        try:
            return self._text(cell)
        except UnsupportedRegex:
            others = [searched(pattern) for pattern in patterns if pattern not in texts]
            matched = [name for name in names if all(pattern_matches(one, name) for one in texts)]
            items = tuple(map(searched, texts))
            but = (*others, *([literals(matched)] if matched else []))
            return _checked(whole_pattern(Both(items, but, is_exact=True)))

    def _text(self, found: Automaton) -> str:
        text = _checked(whole_pattern(self._counted(found).node()))
        know(_pattern_automaton, found, text)
        return text

    def _counted(self, found: Automaton) -> Automaton:
        self._work += 10 + len(found.rows)
        if self._work > MAX_WORK:
            raise UnsupportedRegex("the schema compares too many patterns with each other")
        return found
