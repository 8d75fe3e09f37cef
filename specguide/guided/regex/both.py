"""Owns the texts that several regular expressions all match and others do not: as one tree, or as a
Both where that would be too large."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from heapq import heappop, heappush
from math import prod
from operator import and_, sub

from specguide.guided.budget import kept, spend
from specguide.guided.regex.automaton import automaton
from specguide.guided.regex.charset import EVERYTHING, JSON_TEXT, CharSet, holds
from specguide.guided.regex.first import First, first_of
from specguide.guided.regex.nfa import Nfa
from specguide.guided.regex.tree import (
    ANY_CHAR,
    ANY_TEXT,
    NOTHING,
    Both,
    Chars,
    Regex,
    Repeat,
    UnsupportedRegex,
    either,
    with_chars,
)
from specguide.guided.regex.writer import is_exact, restrict

_MAX_NFA = 20_000
_MAX_LOOKS = 2_000
_MAX_PAIRS = 10_000_000
"""Most states of all automata together. The library follows them at the same time, and has
limits."""

_ANY_CHARS = Repeat(ANY_CHAR, 1, None)

_States = tuple[frozenset[int], ...]
"""For each of several automata, the states to which one text may lead."""


def together(items: Sequence[Regex], but: Sequence[Regex], *, is_exact: bool) -> Regex:
    """The texts that all of `items` match in every dialect, and none of `but` matches in any.

    is_exact: all dialects agree on these texts

    Raises UnsupportedRegex where there may be no text that JSON can spell, or where the library
    could not follow all of them.
    """
    try:
        found = reduce(and_, map(automaton, items))
        return reduce(sub, (automaton(one, outer=True) for one in but), found).node()
    except UnsupportedRegex:
        both = Both(tuple(items), tuple(map(outermost, but)), is_exact)
        if not _can_be_followed(both):
            raise
        return both


def any_one(nodes: Iterable[Regex]) -> Regex:
    """The texts that any one of the trees matches. Raises UnsupportedRegex as `together`."""
    found = list(nodes)
    large = [node for node in found if isinstance(node, Both)]
    plain = either(node for node in found if not isinstance(node, Both))
    return reduce(_one_or_other, large, plain)


def _one_or_other(one: Regex, other: Regex) -> Regex:
    """The texts that one of two trees matches. Each pair of constraints, one of each tree, becomes
    a choice between the two."""
    if NOTHING in (one, other):
        return one if other == NOTHING else other
    if not isinstance(one, Both) and not isinstance(other, Both):
        return either((one, other))
    (items, but), (others, others_but) = _both_sides(one), _both_sides(other)
    left_out = [
        *(together([left], [item], is_exact=True) for left in but for item in others),
        *(together([left], [item], is_exact=True) for left in others_but for item in items),
        *(together([left, right], [], is_exact=True) for left in but for right in others_but),
    ]
    pairs = [_one_or_other(item, right) for item in items for right in others]
    agreed = is_exact(one) and is_exact(other)
    return together(pairs, [left for left in left_out if left != NOTHING], is_exact=agreed)


def _both_sides(node: Regex) -> tuple[Sequence[Regex], Sequence[Regex]]:
    """The trees that must all match, and those that must not."""
    return (node.items, node.but) if isinstance(node, Both) else ((node,), ())


def in_some_dialect(items: Sequence[Regex], but: Sequence[Regex]) -> Regex:
    """A tree that matches in some dialect all that `together` may match there, or more. In all
    dialects it matches at most the empty text, and that only where `together` does, too."""
    try:
        if any(isinstance(one, Both) for one in but):
            return _disputed(_ANY_CHARS)
        least = [restrict(one, EVERYTHING) for one in but]
        found = together(list(map(outermost, items)), least, is_exact=True)
    except UnsupportedRegex:
        found = _ANY_CHARS
    return _disputed(_ANY_CHARS if isinstance(found, Both) else found)


def _disputed(node: Regex) -> Regex:
    """A tree whose characters match only in some dialect."""
    return with_chars(node, lambda chars: Chars(CharSet((), chars.outer)))


@kept
def match_one_text(items: tuple[Regex, ...]) -> bool:
    """Whether JSON can spell a text that all of the items match in every dialect. Their automata
    may be large. Raises UnsupportedRegex where it takes too long to find out."""
    return _Search(Both(items, (), True)).finds()


@kept
def share_no_text(one: Regex, other: Regex) -> bool:
    """Whether certainly no text matches both trees, in whatever dialects."""
    widest = outermost(one), outermost(other)
    first = reduce(and_, map(_first_of, widest))
    if not first.chars and not first.may_be_empty:
        return True
    try:
        return not match_one_text(widest)
    except UnsupportedRegex:
        return False


@kept
def _first_of(node: Regex) -> First:
    return first_of(node)


@kept
def everything_but(node: Regex) -> Regex:
    """The texts that `node`, without anchors, matches in no dialect. Raises UnsupportedRegex where
    there may be none."""
    return together([ANY_TEXT], [node], is_exact=True)


def ways_to_fail(node: Regex) -> list[Regex]:
    """Trees of the texts that `node`, without anchors, matches in no dialect: several where one
    would be too large. Raises UnsupportedRegex where there may be none."""
    try:
        return [everything_but(node)]
    except UnsupportedRegex:
        if not isinstance(node, Both):
            raise
    ways = [way for item in node.items for way in ways_to_fail(item)]
    return [*ways, *(node.but if node.is_exact else ())]


@kept
def outermost(node: Regex) -> Regex:
    """A tree that matches in all dialects what the given tree matches in some."""
    if isinstance(node, Both):
        but = node.but if node.is_exact else ()
        return Both(tuple(map(outermost, node.items)), but, True)
    return with_chars(node, lambda chars: Chars(CharSet(chars.outer, chars.outer)))


@kept
def _can_be_followed(both: Both) -> bool:
    """Whether its automata are small enough, and a text is found that it matches."""
    try:
        search = _Search(both)
        return search.num_states <= _MAX_PAIRS and search.finds()
    except UnsupportedRegex:  # it has a Both inside, or too large a part
        return False


def _parts(both: Both) -> tuple[list[Regex], list[Regex]]:
    """The trees that must all match, and those that must not, of it and of each Both inside."""
    items, but = list[Regex](), list(both.but)
    for item in both.items:
        more, less = _parts(item) if isinstance(item, Both) else ([item], [])
        items += more
        but += less
    return items, but


class _Search:
    """A search for a text that the items' automata all match, and no other automaton does."""

    def __init__(self, both: Both) -> None:
        items, but = _parts(both)
        self._automata = [Nfa(one, most_states=_MAX_NFA) for one in (*items, *but)]
        self._num_items = len(items)

    @property
    def num_states(self) -> int:
        """Most states that all automata together can have, not counting states that read no
        character."""
        return prod(1 + sum(map(bool, one.moves)) for one in self._automata)

    def finds(self) -> bool:
        """Search for a text, first where the items have come furthest: their states are numbered in
        the order of the expression. Raises UnsupportedRegex where none is found soon, but there may
        be one."""
        start = tuple(one.closure({0}) for one in self._automata)
        seen, todo = {start}, [(0, 0, start)]
        while todo:
            if len(seen) >= _MAX_LOOKS:
                raise UnsupportedRegex(
                    "regular expressions take too long to compare; simplify them"
                )
            _, _, states = heappop(todo)
            if self._takes(states):
                return True
            for after in self._after(states):
                items = after[: self._num_items]
                if after not in seen and all(items):
                    seen.add(after)
                    heappush(todo, (-sum(map(max, items)), len(seen), after))
        return False

    def _takes(self, states: _States) -> bool:
        ends = [one.last in found for one, found in zip(self._automata, states, strict=True)]
        return all(ends[: self._num_items]) and not any(ends[self._num_items :])

    def _after(self, states: _States) -> Iterator[_States]:
        """The states after each character that some automaton distinguishes from the character
        before it."""
        moves = [
            [move for state in found for move in one.moves[state]]
            for one, found in zip(self._automata, states, strict=True)
        ]
        marks = {mark for found in moves for low, high, _ in found for mark in (low, high + 1)}
        marks |= {low for low, _ in JSON_TEXT}
        spend(1 + len(marks) * sum(map(len, moves)) // 16)
        for code in sorted(marks):
            if holds(JSON_TEXT, code):
                yield tuple(
                    one.closure({to for low, high, to in found if low <= code <= high})
                    for one, found in zip(self._automata, moves, strict=True)
                )
