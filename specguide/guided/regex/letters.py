"""Owns letters: characters that no state of some automata tells apart are one letter.

What a state does is a row then, of where each letter leads. Rows are followed and compared as a
whole, which takes a small part of the time that it takes edge by edge.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, groupby
from operator import itemgetter
from typing import NamedTuple

from specguide.guided.budget import spend

Edge = tuple[int, int, int]
"""First and last code point, state that they lead to."""
Row = tuple[int, ...]
"""Of a state: where each letter leads."""

NOWHERE = -1
"""Where a letter leads that no text goes on with."""
_BEHIND_ALL = 0x110000
_second, _target = itemgetter(1), itemgetter(2)


class Alphabet(NamedTuple):
    """Letters are numbered in the order of their first characters.

    starts:  code points at which ranges of characters begin, ascending from 0
    letters: of each range
    """

    starts: tuple[int, ...] = (0,)
    letters: tuple[int, ...] = (0,)

    def letter_at(self, code: int) -> int:
        """Of a character."""
        return self.letters[bisect_right(self.starts, code) - 1]

    def edges(self, row: Row) -> tuple[Edge, ...]:
        """Those of a state, sorted; neighbours that lead to the same state are one."""
        spend(1 + len(self.starts) // 8)
        ends = (*self.starts[1:], _BEHIND_ALL)
        ranges = zip(self.starts, ends, map(row.__getitem__, self.letters), strict=True)
        found = []
        for to, same in groupby(ranges, key=_target):
            if to != NOWHERE:
                whole = list(same)
                found.append((whole[0][0], whole[-1][1] - 1, to))
        return tuple(found)


def fewest_letters(
    alphabet: Alphabet, rows: Sequence[Sequence[int]]
) -> tuple[Alphabet, tuple[Row, ...]]:
    """The same states over as few letters and ranges as there can be."""
    spend(1 + len(rows) * (1 + len(rows[0]) // 16) + len(alphabet.starts) // 8 if rows else 1)
    numbers: dict[Row, int] = {}
    columns = zip(*rows, strict=True)
    fewer = [numbers.setdefault(column, len(numbers)) for column in columns] if rows else [0]
    letters = [fewer[letter] for letter in alphabet.letters] if rows else [0]
    ranges = groupby(zip(alphabet.starts, letters, strict=False), key=_second)
    kept = [next(same) for _, same in ranges]
    return Alphabet(*zip(*kept, strict=True)), tuple(zip(*numbers, strict=True))


def rows_of(edges: Iterable[Iterable[Edge]]) -> tuple[Alphabet, tuple[Row, ...]]:
    """The letters of some states, and the row of each; the edges of a state lie apart."""
    all_edges = [tuple(found) for found in edges]
    starts = sorted({0}.union(*((low, high + 1) for found in all_edges for low, high, _ in found)))
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
    """Some automata over the same letters: those that none of them tells apart.

    alphabet: of all of them
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

    def after(self, states: Iterable[int]) -> Iterator[tuple[int, ...]]:
        """Where each letter leads from a state of each automaton."""
        rows = list(map(self._row, count(), states))
        spend(len(rows) * (2 + len(rows[0]) // 4))
        return zip(*rows, strict=True)

    def _row(self, number: int, state: int) -> Row:
        """Of a state of one of the automata."""
        known = self._rows[number]
        if state not in known:
            own = self._own_rows[number][state]
            known[state] = tuple(own[letter] for letter in self._own_letters[number])
            spend(1 + len(known[state]) // 16)
        return known[state]
