"""Owns the smallest form of an automaton: states that no text tells apart are one state.

It begins with few blocks of states and divides them until the states of each block lead into the
same blocks (partition refinement; Hopcroft 1971).
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from specguide.guided.budget import spend
from specguide.guided.regex.letters import NOWHERE, Row


def minimal_rows(
    rows: Sequence[Sequence[int]], accepting: Iterable[int]
) -> tuple[list[Row], frozenset[int]]:
    """The rows of the smallest automaton for the same texts, and its accepting states.

    States that lead to no end are left out. Without rows there is no text.
    """
    ends = set(accepting)
    distances = _distances(rows, ends)
    if 0 not in distances:
        return [], frozenset()
    kept = {NOWHERE: NOWHERE} | dict.fromkeys(range(len(rows)), NOWHERE)
    kept.update(zip(distances, distances, strict=True))
    live = {
        state: tuple(map(kept.__getitem__, row))
        for state, row in enumerate(rows)
        if state in distances
    }
    block_of = _blocks(live, distances)
    first_states = {block_of[state]: state for state in reversed(live)}
    found = [_into(block_of, live[first_states[block]]) for block in range(len(first_states))]
    return found, frozenset(block_of[state] for state in ends)


def _distances(rows: Sequence[Sequence[int]], accepting: set[int]) -> dict[int, int]:
    """For each state that leads to an end, the number of characters to the nearest one."""
    sources = _sources(enumerate(rows))
    distances = dict.fromkeys(accepting, 0)
    todo = deque(accepting)
    while todo:
        target = todo.popleft()
        for state in sources[target]:
            if state not in distances:
                distances[state] = distances[target] + 1
                todo.append(state)
    return distances


def _sources(rows: Iterable[tuple[int, Sequence[int]]]) -> dict[int, list[int]]:
    """For each state, the states from which some letter leads to it."""
    sources: dict[int, list[int]] = defaultdict(list)
    for state, row in rows:
        for to in set(row):
            sources[to].append(state)
    return sources


def _blocks(live: dict[int, Row], apart: dict[int, int]) -> dict[int, int]:
    """The block of each state. Blocks are numbered in the order of their first states.

    live:  rows of the states
    apart: states with different numbers here are in different blocks
    """
    blocks = _Blocks(live, apart)
    todo: Iterable[int] = live
    while todo:
        todo = blocks.divide(todo)
    numbers: dict[int, int] = {}
    found = {state: numbers.setdefault(blocks.block_of[state], len(numbers)) for state in live}
    return found | {NOWHERE: NOWHERE}


def _into(block_of: dict[int, int], row: Row) -> Row:
    """The row with blocks in the place of states."""
    return tuple(map(block_of.__getitem__, row))


class _Blocks:
    """Blocks of states, which are divided until the states of each lead into the same blocks."""

    def __init__(self, live: dict[int, Row], apart: dict[int, int]) -> None:
        self.block_of = {state: apart[state] for state in live} | {NOWHERE: NOWHERE}
        self._rows = live
        self._sizes = Counter(self.block_of.values())
        self._last = max(self._sizes)
        self._sources = _sources(live.items())

    def divide(self, states: Iterable[int]) -> set[int]:
        """Divides the blocks of these states by where they lead.

        The states that are not given lead into the same blocks as all others of their own block.
        Returns the states that now lead into other blocks than before: they are to be given next.
        """
        found: dict[int, dict[Row, list[int]]] = defaultdict(dict)
        for state in states:
            row = self._rows[state]
            spend(1 + len(row) // 8)
            parts = found[self.block_of[state]]
            parts.setdefault(_into(self.block_of, row), []).append(state)
        moved = [state for block, parts in found.items() for state in self._split(block, parts)]
        return {source for state in moved for source in self._sources[state]}

    def _split(self, block: int, parts: Mapping[Row, list[int]]) -> Iterator[int]:
        """Makes each part of a block a block of its own; yields the states that have left it.

        If the parts are all of the block, the largest one stays.
        """
        leaving = sorted(parts.values(), key=len)
        if sum(map(len, leaving)) == self._sizes[block]:
            leaving.pop()
        for part in leaving:
            self._last += 1
            self._sizes[self._last] = len(part)
            self._sizes[block] -= len(part)
            self.block_of.update(dict.fromkeys(part, self._last))
            yield from part
