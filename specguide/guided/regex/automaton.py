"""Owns finite automata over characters: what regular expressions have in common, what one leaves
out, and back again.

A tree of `parse` has a language per dialect; an automaton has one, the `inner` or the `outer` one.
States are numbered from 0, where every text starts; a character that no edge of a state takes leads
nowhere.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import and_, itemgetter, sub

from specguide.guided.budget import spend
from specguide.guided.quick import hashed_once
from specguide.guided.regex.elimination import tree_of
from specguide.guided.regex.nfa import Edge, Nfa
from specguide.guided.regex.tree import Both, Node, UnsupportedRegex

MAX_STATES = 400
_NOWHERE = -1
_first = itemgetter(0)


@hashed_once
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
    if isinstance(node, Both):
        return _of_both(node, outer)
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
    return minimal(edges, {number for states, number in numbers.items() if nfa.last in states})


def _of_both(node: Both, outer: bool) -> Automaton:
    found = reduce(and_, [automaton(item, outer=outer) for item in node.items])
    if outer and not node.is_exact:
        return found  # some dialect may let all of it pass
    return reduce(sub, map(automaton, node.but), found)


def _check_states(num_states: int) -> None:
    if num_states > MAX_STATES:
        raise UnsupportedRegex(
            f"a regular expression of more than {MAX_STATES} states cannot be compared with others"
        )


def _cut(edges: Iterable[Edge]) -> Iterator[tuple[int, int, frozenset[int]]]:
    """Edges that may overlap, as sorted ranges that do not, each with all the states it leads
    to."""
    edges = list(edges)
    if len(edges) < 2:
        spend(2 * len(edges))
        yield from ((low, high, frozenset((to,))) for low, high, to in edges)
        return
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
    return minimal(edges, accepting)


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


def minimal(edges: list[list[Edge]], accepting: set[int]) -> Automaton:
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
    sources = _sources(enumerate(edges))
    distances = dict.fromkeys(accepting, 0)
    todo = deque(accepting)
    while todo:
        target = todo.popleft()
        for state in sources[target]:
            if state not in distances:
                distances[state] = distances[target] + 1
                todo.append(state)
    return distances


def _sources(edges: Iterable[tuple[int, list[Edge]]]) -> dict[int, set[int]]:
    """From which states edges lead to a state."""
    sources: dict[int, set[int]] = defaultdict(set)
    for state, found in edges:
        for _, _, to in found:
            sources[to].add(state)
    return sources


def _blocks(live: dict[int, list[Edge]], apart: dict[int, int]) -> dict[int, int]:
    """The states' numbers, the same for states that nothing tells apart; those that `apart` gives
    different numbers are told apart to begin with.

    A block is looked at again only where one of its edges leads into a block that was divided.
    """
    blocks = _Blocks(live, apart)
    todo: Iterable[int] = live
    while todo:
        todo = blocks.divided(todo)
    numbers: dict[int, int] = {}
    return {state: numbers.setdefault(blocks.of[state], len(numbers)) for state in live}


class _Blocks:
    """Blocks of states, which are divided."""

    def __init__(self, live: dict[int, list[Edge]], apart: dict[int, int]) -> None:
        self.of = {state: apart[state] for state in live}
        self._edges = live
        self._sizes = Counter(self.of.values())
        self._last = max(self._sizes)
        self._sources = _sources(live.items())

    def divided(self, states: Iterable[int]) -> set[int]:
        """Divides blocks by where these states' edges lead; the states whose edges now lead
        elsewhere. All others of a block have edges into the same blocks."""
        found: dict[int, dict[tuple[Edge, ...], list[int]]] = defaultdict(dict)
        for state in states:
            edges = self._edges[state]
            spend(1 + len(edges))
            found[self.of[state]].setdefault(_into(self.of, edges), []).append(state)
        moved = [state for number, parts in found.items() for state in self._split(number, parts)]
        return {source for state in moved for source in self._sources[state]}

    def _split(self, number: int, parts: Mapping[tuple[Edge, ...], list[int]]) -> Iterator[int]:
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


def _into(block: dict[int, int], edges: list[Edge]) -> tuple[Edge, ...]:
    """Sorted edges that lead into blocks of states; neighbours that lead into the same one are made
    one."""
    found: list[Edge] = []
    last_high = last_into = -2
    for low, high, to in edges:
        into = block[to]
        if into == last_into and last_high + 1 == low:
            found[-1] = (found[-1][0], high, into)
        else:
            found.append((low, high, into))
        last_high, last_into = high, into
    return tuple(found)
