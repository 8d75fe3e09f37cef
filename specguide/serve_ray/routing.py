"""Owns the choice of a replica for a request, and what it remembers for that.

It knows nothing of Ray, HTTP or time, so that a simulation runs the very same code.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from random import Random

BLOCK_BYTES = 256
"""Bytes of a prompt's text in one block: about 64 tokens of English."""
_MOST_HOLDERS = 4
"""Most replicas that are remembered, and so asked, for a prefix or a grammar."""
MOST_A_REPLICA = 1 << 14
"""Most entries of a replica: for more prompts than its cache can hold."""
_POINTS = 16
"""Points of each replica on the hash ring."""


@dataclass(frozen=True)
class RoutingKey:
    """The parts of a request that a replica may already have.

    prefixes:  hashes of prefixes of the prompt, shortest first
    lengths:   lengths of these prefixes, bytes
    num_bytes: length of the whole prompt, bytes
    grammar:   hash of what the output must match; None where the request says nothing
    """

    prefixes: tuple[int, ...] = ()
    lengths: tuple[int, ...] = ()
    num_bytes: int = 0
    grammar: int | None = None


@dataclass(frozen=True)
class RoutingCosts:
    """The costs by which replicas are compared, in seconds.

    prefill_s: per byte of a prompt whose keys and values the replica lacks
    compile_s: for a grammar that the replica has not compiled
    ongoing_s: per request that is already under way there
    hope:      probability that the first replica to which an unseen prefix belongs has all of it,
               since another router may have sent it there; 0 where there is no other router
    """

    prefill_s: float = 5.5e-6
    compile_s: float = 0.02
    ongoing_s: float = 0.005
    hope: float = 0.25


@dataclass(eq=False)
class _Replica:
    """What is remembered of a replica. kept: hashes for which it is remembered, the longest unused
    first; points: its points on the ring"""

    kept: OrderedDict[int, None] = field(default_factory=OrderedDict)
    points: list[int] = field(default_factory=list)


class Routing:
    """Chooses among replicas by what an answer would wait for there: the part of the prompt that is
    not in its cache, a grammar that it has not compiled, and its other requests.

    A decision compares only few replicas, however many there are: those that are remembered for the
    longest prefixes and for the grammar, two of a consistent-hash ring, and two at random. Those of
    the ring are found by the first prefix that this router has not seen. So routers that do not
    talk to each other send the turns of a conversation to the same replica.

    Memory is bounded: `max_entries` in all, shared equally by the replicas, and at most
    `MOST_A_REPLICA` each; the longest unused entry is dropped first. A replica that is removed
    leaves nothing behind.
    """

    def __init__(
        self, costs: RoutingCosts | None = None, *, max_entries: int = 1 << 20, seed: int = 0
    ) -> None:
        self._costs = costs or RoutingCosts()
        self._max_entries = max_entries
        self._random = Random(seed)
        self._replicas: dict[str, _Replica] = {}
        self._names: list[str] = []
        self._places: dict[str, int] = {}
        self._holders: dict[int, tuple[str, ...]] = {}
        self._ring: list[int] = []
        self._owners: dict[int, str] = {}

    @property
    def replicas(self) -> tuple[str, ...]:
        """The names of the replicas to which requests may go."""
        return tuple(self._names)

    @property
    def num_entries(self) -> int:
        """Number of remembered pairs of a hash and a replica."""
        return sum(len(replica.kept) for replica in self._replicas.values())

    def update(self, replicas: Iterable[str]) -> None:
        """Take the current set of replicas: add new ones, and remove those that are gone."""
        wanted = set(replicas)
        for name in [name for name in self._names if name not in wanted]:
            self.remove(name)
        for name in sorted(wanted - self._replicas.keys()):
            self.add(name)

    def add(self, name: str) -> None:
        """Add a replica; nothing changes where it is already there."""
        if name in self._replicas:
            return
        points = [_hash(f"{name}/{number}".encode()) for number in range(_POINTS)]
        self._replicas[name] = _Replica(points=points)
        self._places[name] = len(self._names)
        self._names.append(name)
        for point in points:
            insort(self._ring, point)
            self._owners[point] = name

    def remove(self, name: str) -> None:
        """Remove a replica and all that was remembered of it; nothing changes where it is not
        there."""
        replica = self._replicas.pop(name, None)
        if replica is None:
            return
        for key in replica.kept:
            self._forget_holder(key, name)
        for point in replica.points:
            del self._ring[bisect_right(self._ring, point) - 1]
            self._owners.pop(point, None)
        place, last = self._places.pop(name), self._names.pop()
        if last != name:
            self._names[place] = last
            self._places[last] = place

    def choose(self, key: RoutingKey, num_ongoing: Callable[[str], int]) -> list[str]:
        """Replicas to ask, the best first; empty where there are none.

        num_ongoing: gives the known number of requests under way at a replica
        """
        matched = self._matched(key)
        asked = dict.fromkeys(matched)
        asked |= dict.fromkeys(self._holders.get(key.grammar, ()) if key.grammar else ())
        first = self._ring_choice(key, asked)
        for _ in range(min(2, len(self._names))):
            asked[self._random.choice(self._names)] = None
        hoped = {first: self._hoped(key)} if first is not None and first not in matched else {}
        costs = {
            name: self._cost(key, name, matched.get(name, hoped.get(name, 0.0)), num_ongoing(name))
            for name in asked
        }
        return sorted(costs, key=lambda name: costs[name])

    def note(self, name: str, key: RoutingKey) -> None:
        """Remember that a request went to a replica, which will then have its prefixes and its
        grammar."""
        replica = self._replicas.get(name)
        if replica is None:
            return
        for entry in (*key.prefixes, *(() if key.grammar is None else (key.grammar,))):
            self._keep(replica, name, entry)
        most = max(1, min(MOST_A_REPLICA, self._max_entries // len(self._replicas)))
        while len(replica.kept) > most:
            self._forget_holder(replica.kept.popitem(last=False)[0], name)

    def _matched(self, key: RoutingKey) -> dict[str, float]:
        """Bytes of the prompt for which each of a few replicas is remembered, by name, the longest
        prefix first."""
        matched: dict[str, float] = {}
        for prefix, length in zip(reversed(key.prefixes), reversed(key.lengths), strict=True):
            for name in self._holders.get(prefix, ()):
                matched.setdefault(name, length)
            if len(matched) >= _MOST_HOLDERS:
                break
        return matched

    def _ring_choice(self, key: RoutingKey, asked: dict[str, None]) -> str | None:
        """The replica to which the first unseen prefix belongs. Adds it and the next one to
        `asked`."""
        unseen = next((p for p in key.prefixes if p not in self._holders), None)
        if unseen is None or not self._ring:
            return None
        start = bisect_right(self._ring, unseen)
        owners = [self._owners[self._ring[(start + step) % len(self._ring)]] for step in range(2)]
        asked |= dict.fromkeys(owners)
        return owners[0]

    def _hoped(self, key: RoutingKey) -> float:
        return self._costs.hope * key.lengths[-1]

    def _cost(self, key: RoutingKey, name: str, num_matched: float, num_ongoing: int) -> float:
        costs = self._costs
        is_compiled = key.grammar is None or name in self._holders.get(key.grammar, ())
        return (
            costs.ongoing_s * num_ongoing
            + costs.prefill_s * (key.num_bytes - num_matched)
            + (0.0 if is_compiled else costs.compile_s)
        )

    def _keep(self, replica: _Replica, name: str, entry: int) -> None:
        if entry in replica.kept:
            replica.kept.move_to_end(entry)
            return
        replica.kept[entry] = None
        holders = (*self._holders.get(entry, ()), name)
        if len(holders) > _MOST_HOLDERS:
            self._replicas[holders[0]].kept.pop(entry)
            holders = holders[1:]
        self._holders[entry] = holders

    def _forget_holder(self, entry: int, name: str) -> None:
        left = tuple(holder for holder in self._holders[entry] if holder != name)
        if left:
            self._holders[entry] = left
        else:
            del self._holders[entry]


def prefix_hashes(parts: Iterable[bytes | memoryview]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Hashes of a text's prefixes, and their lengths in bytes, shortest first. Their number grows
    with the logarithm of the text's length.

    parts: the text
    """
    state = blake2b(digest_size=8)
    size = 0
    hashes, lengths = [], []
    steps = 1
    for text in parts:
        part = memoryview(text)
        place = 0
        while size + len(part) - place >= steps * BLOCK_BYTES:
            end = place + steps * BLOCK_BYTES - size
            state.update(part[place:end])
            place, size = end, steps * BLOCK_BYTES
            hashes.append(int.from_bytes(state.copy().digest(), "little"))
            lengths.append(size)
            steps += max(1, 1 << (steps.bit_length() - 1) >> 2)
        state.update(part[place:])
        size += len(part) - place
    return tuple(hashes), tuple(lengths)


def grammar_hash(parts: Iterable[bytes | memoryview]) -> int:
    """Hash of what a request says about the form of its output."""
    state = blake2b(digest_size=8, person=b"grammar")
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return int.from_bytes(state.digest(), "little")


def _hash(text: bytes) -> int:
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "little")
