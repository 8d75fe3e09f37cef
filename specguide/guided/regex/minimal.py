"""Owns the minimization of automata: states that no text distinguishes become one state.

Without loops, one pass backwards from the accepting states finds them. Else it begins with few
blocks of states, and divides blocks until all states of a block lead into the same blocks
(partition refinement; Hopcroft 1971).
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

    States from which no accepting state is reached are left out. Without rows it matches no text.
    """
    if not rows:
        return [], frozenset()
    ends = set(accepting)
    targets = list(map(set, rows))
    sources = _sources(enumerate(targets))
    block_of = _blocks_without_loops(rows, ends, sources, list(map(len, targets)))
    if block_of is None:
        block_of = _blocks_with_loops(rows, _distances(sources, ends))
    if block_of[0] == NOWHERE:
        return [], frozenset()
    first_states: dict[int, int] = {}
    for state in range(len(rows)):
        first_states.setdefault(block_of[state], state)
    first_states.pop(NOWHERE, None)
    numbers = {block: number for number, block in enumerate(first_states)} | {NOWHERE: NOWHERE}
    number_of = {state: numbers[block] for state, block in block_of.items()}
    rows_of_blocks = [_into(number_of, rows[state]) for state in first_states.values()]
    return rows_of_blocks, frozenset(number_of[state] for state in ends)


def live_rows(
    rows: Sequence[Sequence[int]], accepting: Iterable[int]
) -> tuple[list[Row], frozenset[int]]:
    """The rows and accepting states without the states from which no accepting state is reached;
    without rows if the first is one of these."""
    ends = set(accepting)
    live = _distances(_sources(enumerate(map(set, rows))), ends)
    if 0 not in live:
        return [], frozenset()
    kept = [state for state in range(len(rows)) if state in live]
    numbers = dict.fromkeys((NOWHERE, *range(len(rows))), NOWHERE)
    numbers.update({state: number for number, state in enumerate(kept)})
    spend(sum(len(rows[state]) for state in kept) // 4)
    ends_of_kept = frozenset(numbers[state] for state in ends)
    return [_into(numbers, rows[state]) for state in kept], ends_of_kept


def lengths_to_end(rows: Sequence[Sequence[int]], accepting: Iterable[int]) -> dict[int, int]:
    """For each state from which an accepting state is reached, the length of the shortest text to
    it."""
    spend(sum(map(len, rows)) // 4)
    return _distances(_sources(enumerate(map(set, rows))), set(accepting))


def _blocks_without_loops(
    rows: Sequence[Sequence[int]],
    ends: set[int],
    sources: Mapping[int, Sequence[int]],
    num_left: list[int],
) -> dict[int, int] | None:
    """The block of each state, NOWHERE for states from which no accepting state is reached; None
    where there is a loop.

    Without loops all targets of a state are done before it, and states with equal rows are one
    block.
    num_left: number of targets of each state
    """
    block_of = {NOWHERE: NOWHERE}
    known = {(False, (NOWHERE,) * len(rows[0])): NOWHERE}
    todo = [NOWHERE]
    for target in todo:  # it grows
        for state in sources[target]:
            num_left[state] -= 1
            if not num_left[state]:
                spend(1 + len(rows[state]) // 8)
                key = state in ends, _into(block_of, rows[state])
                block_of[state] = known.setdefault(key, state)
                todo.append(state)
    return block_of if len(block_of) > len(rows) else None


def _blocks_with_loops(
    rows: Sequence[Sequence[int]], distances: Mapping[int, int]
) -> dict[int, int]:
    """See above, for any states. distances: characters to the nearest accepting state, of states
    from which one is reached"""
    block_of = {NOWHERE: NOWHERE} | dict.fromkeys(range(len(rows)), NOWHERE)
    block_of.update(zip(distances, distances, strict=True))
    live = {
        state: tuple(map(block_of.__getitem__, row))
        for state, row in enumerate(rows)
        if state in distances
    }
    blocks = _Blocks(live, distances)
    todo: Iterable[int] = live
    while todo:
        todo = blocks.divide(todo)
    return block_of | blocks.block_of


def _distances(sources: Mapping[int, Sequence[int]], accepting: set[int]) -> dict[int, int]:
    """For each state from which an accepting state is reached, the number of characters to the
    nearest."""
    distances = dict.fromkeys(accepting, 0)
    todo = deque(accepting)
    while todo:
        target = todo.popleft()
        for state in sources[target]:
            if state not in distances:
                distances[state] = distances[target] + 1
                todo.append(state)
    return distances


def _sources(targets: Iterable[tuple[int, set[int]]]) -> dict[int, list[int]]:
    """For each state, the states of which some letter leads to it. targets: for each state, the
    states to which its letters lead"""
    sources: dict[int, list[int]] = defaultdict(list)
    for state, found in targets:
        for to in found:
            sources[to].append(state)
    return sources


def _into(block_of: dict[int, int], row: Sequence[int]) -> Row:
    """The row with blocks in place of states."""
    return tuple(map(block_of.__getitem__, row))


class _Blocks:
    """Blocks of states, which are divided until all states of a block lead into the same blocks.

    live:  rows of the states
    apart: states with different numbers here are in different blocks
    """

    def __init__(self, live: Mapping[int, Row], apart: Mapping[int, int]) -> None:
        self.block_of = {state: apart[state] for state in live} | {NOWHERE: NOWHERE}
        self._rows = live
        self._sizes = Counter(self.block_of.values())
        self._last = max(self._sizes)
        self._sources = _sources((state, set(row)) for state, row in live.items())

    def divide(self, states: Iterable[int]) -> set[int]:
        """Divide the blocks of these states by where the states lead.

        States that are not given must lead into the same blocks as all others of their block.
        Returns the states that now lead into other blocks than before: give these next.
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
        """Make each part of a block a block of its own. Yields the states that have left it.

        Where the parts are the whole block, the largest one stays.
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
