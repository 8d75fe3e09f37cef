"""Owns letters: classes of characters that no state of the automata distinguishes.

With letters, a state is a row: for each letter, the state to which it leads. Following and
comparing whole rows takes a small part of the time that single edges would take.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, groupby
from operator import itemgetter
from typing import NamedTuple

from specguide.guided.budget import spend
from specguide.guided.regex.tree import UnsupportedRegex

Edge = tuple[int, int, int]
"""First code point, last code point, and the state to which these and all between them lead."""
Row = tuple[int, ...]
"""A state: for each letter, the state to which it leads, or NOWHERE."""

NOWHERE = -1
"""The target of a letter with which no text can continue."""
_BEHIND_ALL = 0x110000
_MOST_PLACES = 4_000_000
"""Most entries of rows before letters are merged: 32 MB."""
_second, _target = itemgetter(1), itemgetter(2)


class Alphabet(NamedTuple):
    """The letter of each character. Letters are numbered in the order of their first characters.

    starts:  code points at which ranges of characters begin, ascending from 0
    letters: the letter of each of these ranges
    """

    starts: tuple[int, ...] = (0,)
    letters: tuple[int, ...] = (0,)

    def letter_at(self, code: int) -> int:
        """The letter of the character with this code point."""
        return self.letters[bisect_right(self.starts, code) - 1]

    def edges(self, row: Row) -> tuple[Edge, ...]:
        """The edges of a state, sorted; neighbours with the same target are one edge."""
        spend(1 + len(self.starts) // 8)
        ends = (*self.starts[1:], _BEHIND_ALL)
        ranges = zip(self.starts, ends, map(row.__getitem__, self.letters), strict=True)
        edges_of_row = []
        for to, same in groupby(ranges, key=_target):
            if to != NOWHERE:
                whole = list(same)
                edges_of_row.append((whole[0][0], whole[-1][1] - 1, to))
        return tuple(edges_of_row)


def fewest_letters(
    alphabet: Alphabet, rows: Sequence[Sequence[int]]
) -> tuple[Alphabet, tuple[Row, ...]]:
    """The same states over as few letters and ranges as possible."""
    if not rows:
        return Alphabet(), ()
    spend(1 + len(rows) * (1 + len(rows[0]) // 16) + len(alphabet.starts) // 8)
    numbers: dict[Row, int] = {}
    fewer = [numbers.setdefault(column, len(numbers)) for column in zip(*rows, strict=True)]
    letters = [fewer[letter] for letter in alphabet.letters]
    ranges = groupby(zip(alphabet.starts, letters, strict=True), key=_second)
    first_of_each = [next(same) for _, same in ranges]
    return Alphabet(*zip(*first_of_each, strict=True)), tuple(zip(*numbers, strict=True))


def rows_of(edges: Iterable[Iterable[Edge]]) -> tuple[Alphabet, tuple[Row, ...]]:
    """The alphabet of some states, and the row of each state.

    edges: the edges of each state, which share no character
    Raises UnsupportedRegex where states distinguish too many characters.
    """
    all_edges = [tuple(found) for found in edges]
    starts = sorted({0}.union(*((low, high + 1) for found in all_edges for low, high, _ in found)))
    if len(all_edges) * len(starts) > _MOST_PLACES:
        raise UnsupportedRegex(
            "a regular expression of so many different characters cannot be compared with others; "
            "make its character classes simpler"
        )
    places = {start: place for place, start in enumerate(starts)}
    rows = []
    for found in all_edges:
        row = [NOWHERE] * len(starts)
        for low, high, to in found:
            first, behind = places[low], places[high + 1]
            row[first:behind] = [to] * (behind - first)
        rows.append(row)
        spend(1 + len(found))
    return fewest_letters(Alphabet(tuple(starts), tuple(range(len(starts)))), rows)


class SideBySide:
    """Several automata that are followed at the same time, over one alphabet.

    alphabet: its letters are classes of characters that none of the automata distinguishes
    """

    def __init__(self, automata: Sequence[tuple[Alphabet, Sequence[Row]]]) -> None:
        starts = sorted({start for alphabet, _ in automata for start in alphabet.starts})
        spend(1 + len(starts) * len(automata) // 4)
        numbers: dict[Row, int] = {}
        letters = [
            numbers.setdefault(tuple(own.letter_at(start) for own, _ in automata), len(numbers))
            for start in starts
        ]
        self.alphabet = Alphabet(tuple(starts), tuple(letters))
        self._own_letters = list(zip(*numbers, strict=True))
        self._own_rows = [rows for _, rows in automata]
        nowhere = (NOWHERE,) * len(numbers)
        self._rows: list[dict[int, Row]] = [{NOWHERE: nowhere} for _ in automata]
        self._live: dict[tuple[int, ...], frozenset[tuple[int, ...]]] = {}
        self._num_steps = len(automata) * (2 + len(numbers) // 4)

    def after(self, states: Iterable[int]) -> Iterator[tuple[int, ...]]:
        """For each letter, the states to which it leads from these states, one state of each
        automaton."""
        spend(self._num_steps)
        return zip(*map(self._row, count(), states), strict=True)

    def live_after(self, states: tuple[int, ...]) -> frozenset[tuple[int, ...]]:
        """The states to which letters lead from these states, without those where some automaton
        can no longer match."""
        if states in self._live:
            spend(self._num_steps)
        else:
            found = (after for after in self.after(states) if NOWHERE not in after)
            self._live[states] = frozenset(found)
        return self._live[states]

    def _row(self, number: int, state: int) -> Row:
        """The row of a state of one automaton, over the common letters."""
        known = self._rows[number]
        if state not in known:
            own = self._own_rows[number][state]
            known[state] = tuple(own[letter] for letter in self._own_letters[number])
            spend(1 + len(known[state]) // 16)
        return known[state]
