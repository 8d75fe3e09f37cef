"""Owns finite automata over characters: what regular expressions have in common, what one leaves
out, and back again.

A tree of `parse` has a language per dialect; an automaton has one, the `inner` or the `outer` one.
States are numbered from 0, where every text starts; a character that no edge of a state takes leads
nowhere.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import itemgetter

from specguide.guided.budget import kept, spend
from specguide.guided.regex.charset import EVERYTHING, CharSet
from specguide.guided.regex.elimination import tree_of
from specguide.guided.regex.nfa import Edge, Nfa
from specguide.guided.regex.tree import Chars, Node, Repeat, UnsupportedRegex

MAX_STATES = 400
_NOWHERE = -1
_first = itemgetter(0)


@dataclass(frozen=True)
class Automaton:
    """A deterministic automaton, trimmed and minimal. `edges`: per state, sorted and apart; no
    states: no text."""

    edges: tuple[tuple[Edge, ...], ...]
    accepting: frozenset[int]

    @property
    def is_empty(self) -> bool:
        """Whether it matches no text at all."""
        return not self.accepting

    def matches(self, text: str) -> bool:
        """Whether it matches the whole text."""
        state = 0
        spend(1 + len(text))
        for char in text:
            edges = self.edges[state] if self.edges else ()
            at = bisect_right(edges, ord(char), key=_first)
            if at == 0 or edges[at - 1][1] < ord(char):
                return False
            state = edges[at - 1][2]
        return state in self.accepting

    def num_texts(self, most: int) -> int:
        """How many texts it matches, up to a little over `most`."""
        found, states = 0, Counter([0] if self.edges else [])
        while states and found <= most:
            found += sum(count for state, count in states.items() if state in self.accepting)
            after: Counter[int] = Counter()
            for state, count in states.items():
                spend(1 + len(self.edges[state]))
                for low, high, to in self.edges[state]:
                    after[to] += count * (high - low + 1)
            states = after
        return found

    def texts(self) -> Iterator[str]:
        """Every text that it matches, the shortest first; of endless languages it comes to no
        end."""
        paths = [("", 0)] if self.edges else []
        for text, state in paths:
            if state in self.accepting:
                yield text
            paths += [
                (text + chr(code), to)
                for low, high, to in self.edges[state]
                for code in range(low, high + 1)
            ]

    def __and__(self, other: Automaton) -> Automaton:
        return _product(self, other, lambda left, right: left and right)

    def __sub__(self, other: Automaton) -> Automaton:
        return _product(self, other, lambda left, right: left and not right)

    def node(self) -> Node:
        """A tree, the same in all dialects, of what it matches. Raises UnsupportedRegex where that
        is too large."""
        return tree_of(self.edges, self.accepting)


def automaton(node: Node, *, outer: bool = False) -> Automaton:
    """What a tree without anchors matches in every dialect, or in some (`outer`).

    Raises UnsupportedRegex where it has too many states.
    """
    nfa = Nfa(node, outer=outer, most_states=10 * MAX_STATES)
    start = nfa.closure({0})
    numbers, edges, queue = {start: 0}, [], [start]
    for states in queue:
        moves = _cut((low, high, to) for state in states for low, high, to in nfa.moves[state])
        found = []
        for low, high, targets in moves:
            into = nfa.closure(targets)
            if into not in numbers:
                numbers[into] = len(numbers)
                queue.append(into)
                _check_states(len(numbers))
            found.append((low, high, numbers[into]))
        edges.append(found)
    return _minimal(edges, {number for states, number in numbers.items() if nfa.last in states})


def _check_states(num_states: int) -> None:
    if num_states > MAX_STATES:
        raise UnsupportedRegex(
            f"a regular expression of more than {MAX_STATES} states cannot be compared with others"
        )


def _cut(edges: Iterable[Edge]) -> Iterator[tuple[int, int, frozenset[int]]]:
    """Edges that may overlap, as sorted ranges that do not, each with all the states it leads
    to."""
    opens: dict[int, list[int]] = defaultdict(list)
    closes: dict[int, list[int]] = defaultdict(list)
    for low, high, to in edges:
        opens[low].append(to)
        closes[high + 1].append(to)
    active: Counter[int] = Counter()
    marks = sorted({*opens, *closes})
    for low, after in pairwise(marks):
        active.update(opens[low])
        for to in closes[low]:
            active[to] -= 1
            if not active[to]:
                del active[to]
        spend(2 + len(active) // 16)
        if active:
            yield low, after - 1, frozenset(active)


def _product(left: Automaton, right: Automaton, keep: Callable[[bool, bool], bool]) -> Automaton:
    """Both side by side, while the left one has somewhere to go; `keep` says which pairs of ends
    are ends."""
    if left.is_empty:
        return left
    start = (0, 0 if right.edges else _NOWHERE)
    numbers, edges, queue = {start: 0}, [], [start]
    needs_right = not keep(True, False)
    for one, other in queue:
        found = []
        beside_it = right.edges[other] if other != _NOWHERE else ()
        for low, high, mine, beside in _side_by_side(left.edges[one], beside_it):
            if needs_right and beside == _NOWHERE:
                continue
            if (mine, beside) not in numbers:
                numbers[mine, beside] = len(numbers)
                queue.append((mine, beside))
                _check_states(len(numbers))
            found.append((low, high, numbers[mine, beside]))
        edges.append(found)
    accepting = {
        number
        for (one, other), number in numbers.items()
        if keep(one in left.accepting, other in right.accepting)
    }
    return _minimal(edges, accepting)


def _side_by_side(
    left: Sequence[Edge], right: Sequence[Edge]
) -> Iterator[tuple[int, int, int, int]]:
    """The edges of the left state, cut where those of the right one begin and end: first and last
    code point, where the left one goes, where the right one does."""
    spend(1 + (len(left) + len(right)) // 2)
    at = 0
    for low, high, to in left:
        while low <= high:
            while at < len(right) and right[at][1] < low:
                at += 1
            first, last, beside = right[at] if at < len(right) else (high + 1, high + 1, _NOWHERE)
            end = min(high, last if first <= low else first - 1)
            yield low, end, to, beside if first <= low else _NOWHERE
            low = end + 1


def _minimal(edges: list[list[Edge]], accepting: set[int]) -> Automaton:
    """The same without states that lead to no end, and with states that nothing tells apart made
    one."""
    distances = _distances(edges, accepting)
    if 0 not in distances:
        return Automaton((), frozenset())
    live = {
        state: [edge for edge in found if edge[2] in distances]
        for state, found in enumerate(edges)
        if state in distances
    }
    block = _blocks(live, distances)
    kept = {block[state]: state for state in reversed(live)}
    minimal = tuple(_into(block, live[kept[number]]) for number in range(len(kept)))
    return Automaton(minimal, frozenset(block[state] for state in accepting))


def _distances(edges: list[list[Edge]], accepting: set[int]) -> dict[int, int]:
    """How far from an end a state is, of those that lead to one."""
    sources: dict[int, set[int]] = defaultdict(set)
    for state, found in enumerate(edges):
        for _, _, to in found:
            sources[to].add(state)
    distances = dict.fromkeys(accepting, 0)
    todo = deque(accepting)
    while todo:
        target = todo.popleft()
        for state in sources[target]:
            if state not in distances:
                distances[state] = distances[target] + 1
                todo.append(state)
    return distances


def _blocks(live: dict[int, list[Edge]], block: dict[int, int]) -> dict[int, int]:
    """The states' numbers, the same for states that nothing tells apart; those in different blocks
    are told apart to begin with."""
    num_edges = sum(map(len, live.values()))
    while True:
        spend(1 + len(live) + num_edges)
        numbers: dict[object, int] = {}
        refined = {
            state: numbers.setdefault((block[state], _into(block, found)), len(numbers))
            for state, found in live.items()
        }
        if len(numbers) == len(set(block.values())):
            return refined
        block = refined


def _into(block: dict[int, int], edges: list[Edge]) -> tuple[Edge, ...]:
    """Edges that lead into blocks of states."""
    return _joined((low, high, block[to]) for low, high, to in edges)


def _joined(edges: Iterable[Edge]) -> tuple[Edge, ...]:
    """Sorted edges with neighbours that lead to the same state made one."""
    found: list[Edge] = []
    for low, high, to in edges:
        if found and found[-1][1] + 1 == low and found[-1][2] == to:
            found[-1] = (found[-1][0], high, to)
        else:
            found.append((low, high, to))
    return tuple(found)


@kept
def everything_but(node: Node) -> Node:
    """A tree of the texts that `node`, without anchors, matches in no dialect.

    Raises UnsupportedRegex where it is too large.
    """
    anything = automaton(Repeat(Chars(CharSet(EVERYTHING, EVERYTHING)), 0, None))
    return (anything - automaton(node, outer=True)).node()
