"""Owns the intersections of one schema's patterns, and their division into cells that do not
overlap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import reduce
from itertools import chain, combinations
from math import inf
from operator import or_

from specguide.guided.budget import at_work, kept, know
from specguide.guided.regex.automaton import (
    MANY_STATES,
    MAX_STATES,
    Automaton,
    automaton,
    know_automaton,
)
from specguide.guided.regex.both import together
from specguide.guided.regex.letters import Alphabet
from specguide.guided.regex.tree import (
    ANY_CHAR,
    MAX_CHARS,
    TOO_LONG,
    Both,
    Repeat,
    UnsupportedRegex,
    either,
    least_length,
    literals,
)
from specguide.guided.regex.whole import searched
from specguide.guided.schema.core.pattern_text import whole_pattern
from specguide.guided.schema.core.patterns import (
    TOO_MANY_PATTERNS,
    have_common_text,
    pattern_automaton,
    pattern_matches,
)

MAX_WORK = 15_000
_MAX_COUNTED = 200
_MAX_CELLS = 32
_MOST_PARTS = 4
_EMPTY = Automaton(Alphabet(), (), frozenset())

Cell = tuple[str, frozenset[str]]
"""A pattern, and the given patterns that match all its strings."""


@kept
def _all_of(patterns: tuple[str, ...]) -> Automaton:
    """The intersection of several patterns. Raises UnsupportedRegex for too many states."""
    first = pattern_automaton(patterns[0])
    return first if len(patterns) == 1 else _all_of(patterns[:-1]) & pattern_automaton(patterns[-1])


def joined_pattern(patterns: tuple[str, ...]) -> str | None:
    """Returns the intersection as a pattern, if one of the patterns is itself an intersection; None
    if none is, or the result is too long."""
    nodes = tuple(map(searched, patterns))
    if not any(isinstance(node, Both) for node in nodes):
        return None
    try:
        return _checked(whole_pattern(Both(nodes, (), is_exact=True)))
    except UnsupportedRegex:
        return None


def pattern_of_any(patterns: Sequence[str]) -> str:
    """Returns the union of several patterns as one. Raises UnsupportedRegex where it is too long or
    has too many states."""
    nodes = list(map(searched, patterns))
    if any(isinstance(node, Both) for node in nodes):
        raise UnsupportedRegex("an intersection of patterns cannot be part of a choice")
    union = reduce(or_, map(automaton, nodes))
    node = either(nodes)
    know_automaton(node, union)
    return _checked(whole_pattern(node))


def _is_apart(pattern: str, names: list[str]) -> bool:
    """Whether a pattern matches some string and none of the names, as far as can be told without an
    automaton."""
    node = searched(pattern)
    has_text = not isinstance(node, Both) and least_length(node) < inf
    return has_text and not any(pattern_matches(pattern, name) for name in names)


def _checked(text: str) -> str:
    if len(text) > MAX_CHARS:
        raise UnsupportedRegex(TOO_LONG)
    return text


def _by_parts(
    patterns: list[str], names: list[str], may_come: Callable[[frozenset[str]], bool]
) -> list[Cell]:
    """The cells of a few patterns, each written as an intersection and differences. Raises
    UnsupportedRegex where that takes too long."""
    cells = []
    parts = chain.from_iterable(combinations(patterns, num) for num in range(1, len(patterns) + 1))
    for some in parts:
        others = [pattern for pattern in patterns if pattern not in some]
        if may_come(key := frozenset(some)) and not _is_within(some, others):
            alone = _alone_in_common(some, patterns, names)
            node = together(alone.items, alone.but, is_exact=True)
            if isinstance(node, Both) or least_length(node) < inf:
                cells.append((_checked(whole_pattern(node)), key))
    return cells


def _is_within(some: Sequence[str], others: Sequence[str]) -> bool:
    """Whether all strings of one of `some` match one of `others`, as far as small automata tell."""
    return any(_are_within(one, other) for one in some for other in others)


@kept
def _are_within(one: str, other: str) -> bool:
    with suppress(UnsupportedRegex):
        return (pattern_automaton(one) - pattern_automaton(other)).is_empty
    return False


def _alone_in_common(texts: Sequence[str], patterns: list[str], names: list[str]) -> Both:
    """The strings that all of `texts` match, and neither the other patterns nor the names."""
    others = [searched(pattern) for pattern in patterns if pattern not in texts]
    matched = [name for name in names if all(pattern_matches(text, name) for text in texts)]
    but = (*others, *([literals(matched)] if matched else []))
    return Both(tuple(map(searched, _narrowest(texts))), but, is_exact=True)


def _narrowest(patterns: Sequence[str]) -> list[str]:
    """The patterns without those that match all strings of another one that stays."""
    left = list(patterns)
    for pattern in patterns:
        if any(_are_within(other, pattern) for other in left if other != pattern):
            left.remove(pattern)
    return left


class Patterns:
    """The patterns of one schema. After MAX_WORK automaton states every call raises
    UnsupportedRegex.

    is_loose: do not intersect patterns
    """

    def __init__(self, is_loose: bool = False) -> None:
        self.is_loose = is_loose
        self._work = 0
        self._seen: dict[int, Automaton] = {}  # by id of an automaton, which is held here
        self._common: dict[tuple[tuple[str, ...], int, int | None], str | None] = {}

    def common(self, patterns: tuple[str, ...], least: int, most: int | None) -> str | None:
        """Returns the intersection as one pattern, "" for no patterns; None where no string of
        `least` to `most` characters matches all.

        Raises UnsupportedRegex where that takes too many states.
        """
        if not patterns:
            return ""
        if len(patterns) == 1 and (self.is_loose or (least, most) == (0, None)):
            return patterns[0]
        if self.is_loose:
            raise UnsupportedRegex("several patterns are not intersected here")
        key = patterns, least, most
        if key not in self._common:
            with at_work("comparing patterns", None):
                self._common[key] = self._intersection(*key)
        return self._common[key]

    def _intersection(self, patterns: tuple[str, ...], least: int, most: int | None) -> str | None:
        if len(patterns) == 1:
            return patterns[0] if have_common_text(patterns, least, most) else None
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
        """Returns patterns that overlap neither each other nor `names`, and together match what
        `patterns` match. Cells that `may_come` denies, by the patterns they are part of, are left
        out.

        Raises UnsupportedRegex for too many states, or too many overlaps.
        """
        if len(patterns) == 1 and _is_apart(patterns[0], names):
            alone = frozenset(patterns)
            return [(patterns[0], alone)] if may_come(alone) else []
        cells = self._found(patterns, names, may_come)
        for pair in combinations([text for text, _ in cells], 2):
            know(have_common_text, False, pair, 0, None)
        return cells

    def _found(
        self,
        patterns: list[str],
        names: list[str],
        may_come: Callable[[frozenset[str]], bool],
    ) -> list[Cell]:
        """`cells`, in the way that takes least."""
        with suppress(UnsupportedRegex):
            return self._cut(patterns, names, may_come)
        if len(patterns) <= _MOST_PARTS:
            with suppress(UnsupportedRegex):
                return _by_parts(patterns, names, may_come)
        return self._cut(patterns, names, may_come, MANY_STATES)

    def _cut(
        self,
        patterns: list[str],
        names: list[str],
        may_come: Callable[[frozenset[str]], bool],
        most_states: int = MAX_STATES,
    ) -> list[Cell]:
        """`cells`, by automata. The last pattern leaves no rest that may not come: the rests of two
        long patterns may be too large."""
        cells: list[tuple[Automaton, tuple[str, ...]]] = []
        for number, pattern in enumerate(patterns, 1):
            may_stay = may_come if number == len(patterns) else lambda _: True
            stays_alone = may_stay(frozenset((pattern,)))
            cut, left = [], pattern_automaton(pattern, most_states)
            matched = [name for name in names if left.matches(name)]
            if matched:
                named = automaton(literals(matched), most_states=most_states)
                left = self._counted(left.less(named, most_states))
            for cell, texts in cells:
                common = left if left.is_empty else self._counted(cell.common(left, most_states))
                if not common.is_empty:
                    cut.append((common, (*texts, pattern)))
                if may_stay(frozenset(texts)):
                    rest = self._less(cell, left, common, most_states)
                    cut += [] if rest.is_empty else [(rest, texts)]
                if stays_alone:
                    left = self._less(left, cell, common, most_states)
            cells = cut + ([] if left.is_empty or not stays_alone else [(left, (pattern,))])
            if len(cells) > _MAX_CELLS:
                raise UnsupportedRegex(
                    f"the patterns overlap in more than {_MAX_CELLS} ways; use fewer"
                )
        known = {pattern_automaton(pattern, most_states): pattern for pattern in reversed(patterns)}
        return [
            (known.get(cell) or self._cell_text(cell, texts, patterns, names), frozenset(texts))
            for cell, texts in cells
            if may_come(frozenset(texts))
        ]

    def _less(
        self, one: Automaton, other: Automaton, common: Automaton, most_states: int
    ) -> Automaton:
        """The difference of two automata. common: their intersection"""
        if common.is_empty:
            return one
        return _EMPTY if common == one else self._counted(one.less(other, most_states))

    def _cell_text(
        self, cell: Automaton, texts: tuple[str, ...], patterns: list[str], names: list[str]
    ) -> str:
        """The pattern of a cell; if its automaton makes that too long, as an intersection and
        differences."""
        with suppress(UnsupportedRegex):
            if len(cell.rows) <= MAX_STATES:
                return self._text(cell)
        return _checked(whole_pattern(_alone_in_common(texts, patterns, names)))

    def _text(self, found: Automaton) -> str:
        node = self._counted(found).node()
        know_automaton(node, found)
        return _checked(whole_pattern(node))

    def _counted(self, found: Automaton) -> Automaton:
        if id(found) not in self._seen:
            self._seen[id(found)] = found
            self._work += 10 + min(len(found.rows), MAX_STATES)
        if self._work > MAX_WORK:
            raise UnsupportedRegex(TOO_MANY_PATTERNS)
        return found
