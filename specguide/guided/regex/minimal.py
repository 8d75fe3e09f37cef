"""Owns which states of an automaton nothing tells apart."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence

from specguide.guided.budget import spend
from specguide.guided.regex.letters import NOWHERE, Row


def minimal_rows(
    rows: Sequence[Sequence[int]], accepting: Iterable[int]
) -> tuple[list[Row], frozenset[int]]:
    """The same without states that lead to no end, and with states that nothing tells apart made
    one; and which of them are ends. No rows: there is no text."""
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
    block = _blocks(live, distances)
    of_block = {block[state]: state for state in reversed(live)}
    found = [_into(block, live[of_block[number]]) for number in range(len(of_block))]
    return found, frozenset(block[state] for state in ends)


def _distances(rows: Sequence[Sequence[int]], accepting: set[int]) -> dict[int, int]:
    """How far from an end a state is, of those that lead to one."""
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
    """From which states a letter leads to a state."""
    sources: dict[int, list[int]] = defaultdict(list)
    for state, row in rows:
        for to in set(row):
            sources[to].append(state)
    return sources


def _blocks(live: dict[int, Row], apart: dict[int, int]) -> dict[int, int]:
    """The states' numbers, the same for states that nothing tells apart; those that `apart` gives
    different numbers are told apart to begin with.

    A block is looked at again only where one of its letters leads into a block that was divided.
    """
    blocks = _Blocks(live, apart)
    todo: Iterable[int] = live
    while todo:
        todo = blocks.divided(todo)
    numbers: dict[int, int] = {}
    found = {state: numbers.setdefault(blocks.of[state], len(numbers)) for state in live}
    return found | {NOWHERE: NOWHERE}


def _into(block: dict[int, int], row: Row) -> Row:
    """A row that leads into blocks of states."""
    return tuple(map(block.__getitem__, row))


class _Blocks:
    """Blocks of states, which are divided."""

    def __init__(self, live: dict[int, Row], apart: dict[int, int]) -> None:
        self.of = {state: apart[state] for state in live} | {NOWHERE: NOWHERE}
        self._rows = live
        self._sizes = Counter(self.of.values())
        self._last = max(self._sizes)
        self._sources = _sources(live.items())

    def divided(self, states: Iterable[int]) -> set[int]:
        """Divides blocks by where these states' letters lead; the states whose letters now lead
        elsewhere. All others of a block have letters into the same blocks."""
        found: dict[int, dict[Row, list[int]]] = defaultdict(dict)
        for state in states:
            row = self._rows[state]
            spend(1 + len(row) // 8)
            found[self.of[state]].setdefault(_into(self.of, row), []).append(state)
        moved = [state for number, parts in found.items() for state in self._split(number, parts)]
        return {source for state in moved for source in self._sources[state]}

    def _split(self, number: int, parts: Mapping[Row, list[int]]) -> Iterator[int]:
        """Makes parts of a block blocks; the states that have left it. The largest part stays where
        nothing else does."""
        leaving = sorted(parts.values(), key=len)
        if sum(map(len, leaving)) == self._sizes[number]:
            leaving.pop()
        for part in leaving:
            self._last += 1
            self._sizes[self._last] = len(part)
            self._sizes[number] -= len(part)
            self.of.update(dict.fromkeys(part, self._last))
            yield from part
