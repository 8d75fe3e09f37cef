"""Owns finite automata over characters: what regular expressions have in common, what one leaves out, and back again.

A tree of `parse` has a language per dialect; an automaton has one, the `inner` or the `outer` one. States are numbered
from 0, where every text starts; a character that no edge of a state takes leads nowhere.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from specguide.guided.regex.charset import EVERYTHING, CharSet
from specguide.guided.regex.elimination import tree_of
from specguide.guided.regex.parse import Chars, Concat, Either, Node, Repeat, UnsupportedRegex

MAX_STATES = 400
_NOWHERE = -1

Edge = tuple[int, int, int]
"""First and last code point, state that they lead to."""


@dataclass(frozen=True)
class Automaton:
    """A deterministic automaton, trimmed and minimal. `edges`: per state, sorted and apart; no states: no text."""

    edges: tuple[tuple[Edge, ...], ...]
    accepting: frozenset[int]

    @property
    def is_empty(self) -> bool:
        """Whether it matches no text at all."""
        return not self.accepting

    def matches(self, text: str) -> bool:
        """Whether it matches the whole text."""
        state = 0
        for char in text:
            found = (to for low, high, to in self.edges[state] if low <= ord(char) <= high) if self.edges else ()
            state = next(iter(found), _NOWHERE)
            if state == _NOWHERE:
                return False
        return state in self.accepting

    def num_texts(self, most: int) -> int:
        """How many texts it matches, up to a little over `most`."""
        found, states = 0, Counter([0] if self.edges else [])
        while states and found <= most:
            found += sum(count for state, count in states.items() if state in self.accepting)
            after: Counter[int] = Counter()
            for state, count in states.items():
                for low, high, to in self.edges[state]:
                    after[to] += count * (high - low + 1)
            states = after
        return found

    def texts(self) -> Iterator[str]:
        """Every text that it matches, the shortest first; of endless languages it comes to no end."""
        paths = [("", 0)] if self.edges else []
        for text, state in paths:
            if state in self.accepting:
                yield text
            paths += [(text + chr(code), to) for low, high, to in self.edges[state] for code in range(low, high + 1)]

    def __and__(self, other: Automaton) -> Automaton:
        return _product(self, other, lambda left, right: left and right)

    def __sub__(self, other: Automaton) -> Automaton:
        return _product(self, other, lambda left, right: left and not right)

    def node(self) -> Node:
        """A tree, the same in all dialects, of what it matches. Raises UnsupportedRegex where that is too large."""
        return tree_of(self.edges, self.accepting)


def automaton(node: Node, *, outer: bool = False) -> Automaton:
    """What a tree without anchors matches in every dialect, or in some (`outer`).

    Raises UnsupportedRegex where it has too many states.
    """
    builder = _Builder(outer)
    last = builder.add(node, builder.state())
    start = builder.closure({0})
    numbers, edges, queue = {start: 0}, [], [start]
    for states in queue:
        moves = _cut((low, high, to) for state in states for low, high, to in builder.moves[state])
        found = []
        for low, high, targets in moves:
            into = builder.closure(targets)
            if into not in numbers:
                numbers[into] = len(numbers)
                queue.append(into)
                _check_states(len(numbers))
            found.append((low, high, numbers[into]))
        edges.append(found)
    return _minimal(edges, {number for states, number in numbers.items() if last in states})


class _Builder:
    """A nondeterministic automaton on its way from a tree: `moves` on characters, `skips` on none."""

    def __init__(self, outer: bool) -> None:
        self.moves: list[list[Edge]] = []
        self.skips: list[list[int]] = []
        self._outer = outer

    def state(self) -> int:
        self.moves.append([])
        self.skips.append([])
        _check_states(len(self.moves) // 10)
        return len(self.moves) - 1

    def add(self, node: Node, start: int) -> int:
        """Adds `node` behind a state; the state where it ends."""
        if isinstance(node, Chars):
            end = self.state()
            ranges = node.chars.outer if self._outer else node.chars.inner
            self.moves[start] += [(low, high, end) for low, high in ranges]
            return end
        if isinstance(node, Concat):
            for item in node.items:
                start = self.add(item, start)
            return start
        if isinstance(node, Either):
            end = self.state()
            for item in node.items:
                self.skips[self.add(item, start)].append(end)
            return end
        if isinstance(node, Repeat):
            return self._repeat(node, start)
        raise UnsupportedRegex("an anchor or a lookahead inside a regular expression cannot be enforced")

    def _repeat(self, node: Repeat, start: int) -> int:
        for _ in range(node.least):
            start = self.add(node.item, start)
        if node.most is None:
            loop, end = self.state(), self.state()
            self.skips[start].append(loop)
            self.skips[self.add(node.item, loop)].append(loop)
            self.skips[loop].append(end)
            return end
        end = self.state()
        for _ in range(node.most - node.least):
            self.skips[start].append(end)
            entry = self.state()  # of its own: a loop inside the item must not lead back before it
            self.skips[start].append(entry)
            start = self.add(node.item, entry)
        self.skips[start].append(end)
        return end

    def closure(self, states: Iterable[int]) -> frozenset[int]:
        found, todo = set(states), list(states)
        while todo:
            for state in self.skips[todo.pop()]:
                if state not in found:
                    found.add(state)
                    todo.append(state)
        return frozenset(found)


def _check_states(num_states: int) -> None:
    if num_states > MAX_STATES:
        raise UnsupportedRegex(f"a regular expression of more than {MAX_STATES} states cannot be compared with others")


def _cut(edges: Iterable[Edge]) -> Iterator[tuple[int, int, frozenset[int]]]:
    """Edges that may overlap, as sorted ranges that do not, each with all the states it leads to."""
    opens: dict[int, list[int]] = defaultdict(list)
    closes: dict[int, list[int]] = defaultdict(list)
    for low, high, to in edges:
        opens[low].append(to)
        closes[high + 1].append(to)
    active: dict[int, int] = defaultdict(int)
    marks = sorted({*opens, *closes})
    for low, after in pairwise(marks):
        for to in opens[low]:
            active[to] += 1
        for to in closes[low]:
            active[to] -= 1
        targets = frozenset(to for to, count in active.items() if count)
        if targets:
            yield low, after - 1, targets


def _product(left: Automaton, right: Automaton, keep: Callable[[bool, bool], bool]) -> Automaton:
    """Both side by side, while the left one has somewhere to go; `keep` says which pairs of ends are ends."""
    if left.is_empty:
        return left
    start = (0, 0 if right.edges else _NOWHERE)
    numbers, edges, queue = {start: 0}, [], [start]
    needs_right = not keep(True, False)
    for one, other in queue:
        num_left = len(left.edges)
        theirs = right.edges[other] if other != _NOWHERE else ()
        cut = _cut((*left.edges[one], *((low, high, to + num_left) for low, high, to in theirs)))
        found = []
        for low, high, targets in cut:
            mine = next((to for to in targets if to < num_left), _NOWHERE)
            beside = next((to - num_left for to in targets if to >= num_left), _NOWHERE)
            if mine == _NOWHERE or (needs_right and beside == _NOWHERE):
                continue
            if (mine, beside) not in numbers:
                numbers[mine, beside] = len(numbers)
                queue.append((mine, beside))
                _check_states(len(numbers))
            found.append((low, high, numbers[mine, beside]))
        edges.append(found)
    return _minimal(edges, {number for (one, other), number in numbers.items()
                            if keep(one in left.accepting, other in right.accepting)})


def _minimal(edges: list[list[Edge]], accepting: set[int]) -> Automaton:
    """The same without states that lead to no end, and with states that nothing tells apart made one."""
    sources: dict[int, set[int]] = defaultdict(set)
    for state, found in enumerate(edges):
        for _, _, to in found:
            sources[to].add(state)
    live = dict.fromkeys(accepting, 0)  # how far from an end a state is; states that differ in that are told apart
    todo = deque(accepting)
    while todo:
        target = todo.popleft()
        for state in sources[target]:
            if state not in live:
                live[state] = live[target] + 1
                todo.append(state)
    if 0 not in live:
        return Automaton((), frozenset())
    states = [state for state in range(len(edges)) if state in live]
    block = live
    while True:
        shapes = {state: (block[state], _joined((low, high, block[to]) for low, high, to in edges[state] if to in live))
                  for state in states}
        numbers: dict[object, int] = {}
        refined = {state: numbers.setdefault(shapes[state], len(numbers)) for state in states}
        if len(numbers) == len(set(block.values())):
            break
        block = refined
    kept = {refined[state]: state for state in reversed(states)}
    minimal = tuple(_joined((low, high, refined[to]) for low, high, to in edges[kept[number]] if to in live)
                    for number in range(len(kept)))
    return Automaton(minimal, frozenset(refined[state] for state in accepting))


def _joined(edges: Iterable[Edge]) -> tuple[Edge, ...]:
    """Sorted edges with neighbours that lead to the same state made one."""
    found: list[Edge] = []
    for low, high, to in edges:
        if found and found[-1][1] + 1 == low and found[-1][2] == to:
            found[-1] = (found[-1][0], high, to)
        else:
            found.append((low, high, to))
    return tuple(found)


@lru_cache(maxsize=1024)
def everything_but(node: Node) -> Node:
    """A tree of the texts that `node`, without anchors, matches in no dialect.

    Raises UnsupportedRegex where it is too large.
    """
    anything = automaton(Repeat(Chars(CharSet(EVERYTHING, EVERYTHING)), 0, None))
    return (anything - automaton(node, outer=True)).node()
