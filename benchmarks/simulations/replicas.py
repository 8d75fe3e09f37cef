"""Owns the simulation of replicas behind routers: the routing that Ray runs, over replicas that are
a clock, a cache and a queue."""

from __future__ import annotations

import heapq
from collections import Counter, OrderedDict
from collections.abc import Callable
from itertools import count
from random import Random
from typing import Any, Protocol

import numpy as np

from benchmarks.simulations.replica_traffic import Session, Sessions, Turn, turns_a_session
from benchmarks.simulations.scheduler import NUM_PAGES, NUM_SLOTS, PAGE_SIZE
from specguide.serve_ray.routing import Routing, RoutingCosts, RoutingKey

PREFILL_S, COMPILE_S = 22e-6, 0.02
"""For a token of a prompt, as in `scheduler`, and for a new grammar."""
RESTART_S = 22.3
"""Cold start of an 8B model on an H200, benchmarks/results/startup.json."""


class Router(Protocol):
    """What chooses: `Routing`, or one of those that it is compared with."""

    def update(self, replicas: list[str]) -> None: ...

    def remove(self, name: str) -> None: ...

    def choose(self, key: RoutingKey, num_ongoing: Callable[[str], int]) -> list[str]: ...

    def note(self, name: str, key: RoutingKey) -> None: ...


class LeastOfTwo:
    """The less loaded one of two at random, which is what Ray does by itself."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._names: list[str] = []

    def update(self, replicas: list[str]) -> None:
        """These are the replicas there are."""
        self._names = list(replicas)

    def remove(self, name: str) -> None:
        """The replica is gone."""
        self._names.remove(name)

    def choose(self, key: RoutingKey, num_ongoing: Callable[[str], int]) -> list[str]:
        """Two, the better first."""
        return sorted((self._random.choice(self._names) for _ in range(2)), key=num_ongoing)

    def note(self, name: str, key: RoutingKey) -> None:
        """Nothing is remembered."""


class Replica:
    """Prefixes in a cache of pages, and a device that computes prompts one after another.

    cached: tokens by prefix, the longest unused first: of a session, and of an application
    """

    def __init__(self) -> None:
        self.num_ongoing, self._free_at_s, self._num_cached = 0, 0.0, 0
        self._cached: OrderedDict[tuple[str, int], int] = OrderedDict()
        self._grammars: set[int] = set()

    def take(self, turn: Turn, now_s: float) -> tuple[int, float, float]:
        """Tokens that are there already, and when the first and the last token are told."""
        session = turn.session
        known = self._cached.get(("session", session.number), 0)
        num_hit = known or min(self._cached.get(("app", session.app), 0), turn.prompt_len - 1)
        has_grammar = session.grammar is None or session.grammar in self._grammars
        ready_s = now_s + (0.0 if has_grammar else COMPILE_S)
        first_s = max(ready_s, self._free_at_s) + PREFILL_S * (turn.prompt_len - num_hit)
        self._free_at_s = first_s
        self.num_ongoing += 1
        step_s = max(4.2e-3, 1.5e-3 + 22e-6 * self.num_ongoing)
        step_s *= max(1.0, self.num_ongoing / NUM_SLOTS)
        self._keep(("app", session.app), session.prefix_len)
        self._keep(("session", session.number), turn.prompt_len + turn.output_len)
        if session.grammar is not None:
            self._grammars.add(session.grammar)
        return num_hit, first_s, first_s + step_s * turn.output_len

    def _keep(self, prefix: tuple[str, int], num_tokens: int) -> None:
        self._num_cached += num_tokens - self._cached.pop(prefix, 0)
        self._cached[prefix] = num_tokens
        while self._num_cached > NUM_PAGES * PAGE_SIZE:
            self._num_cached -= self._cached.popitem(last=False)[1]


class RouterView:
    """A router and what it knows of the load: its own requests, and what replicas told it when they
    took one."""

    def __init__(self, router: Router) -> None:
        self.router = router
        self._known = Counter[str]()

    def choose(self, key: RoutingKey) -> str:
        """The best one."""
        return self.router.choose(key, self._known.__getitem__)[0]

    def sent(self, name: str, key: RoutingKey, num_ongoing: int) -> None:
        """A replica has taken a request, and has so many now."""
        self._known[name] = num_ongoing
        self.router.note(name, key)

    def ended(self, name: str) -> None:
        """Takes note that one of its requests has ended."""
        self._known[name] = max(0, self._known[name] - 1)

    def lost(self, name: str) -> None:
        """The replica is gone."""
        self.router.remove(name)
        self._known.pop(name, None)


class ReplicaSimulation:
    """Runs sessions against replicas.

    num_hit_at_best: tokens that would be there with one cache of endless size for all
    """

    def __init__(
        self, num_replicas: int, routers: list[Router], rate: float, seed: int = 0
    ) -> None:
        self._sessions, self._random = Sessions(seed), Random(seed + 1)
        self._arrivals = self._sessions.arrivals(rate * num_replicas / turns_a_session())
        self._replicas = {f"replica-{number}": Replica() for number in range(num_replicas)}
        self._views = [RouterView(router) for router in routers]
        for view in self._views:
            view.router.update(list(self._replicas))
        self._names, self._numbers = count(num_replicas), count()
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._seen: set[int] = set()
        self._homes: dict[int, str] = {}
        self.num_tokens = self.num_hit = self.num_hit_at_best = self.num_requests = 0
        self.num_lost = self.num_again = 0
        self.waits_s: list[float] = []
        self.of_replica: Counter[str] = Counter()
        self._at(next(self._arrivals), self._arrive)

    def run(self, num_requests: int, kills: int = 0) -> None:
        """So many requests. kills: replicas that end, evenly in the second half"""
        kill_at = [num_requests * (kills + each) // (2 * kills) for each in range(kills)]
        while self.num_requests < num_requests:
            if kill_at and self.num_requests >= kill_at[0]:
                kill_at.pop(0)
                self._kill()
            now_s, _, event = heapq.heappop(self._events)
            self._now_s = now_s
            event(now_s)

    def figures(self) -> dict[str, Any]:
        """How it went."""
        loads = list(self.of_replica.values()) or [0]
        return {
            "requests": self.num_requests,
            "hit_rate": round(self.num_hit / self.num_tokens, 3),
            "hit_of_best": round(self.num_hit / self.num_hit_at_best, 3),
            "wait_ms_p50": round(1000 * float(np.percentile(self.waits_s, 50)), 1),
            "wait_ms_p99": round(1000 * float(np.percentile(self.waits_s, 99)), 1),
            "most_loaded": round(max(loads) / (sum(loads) / len(self._replicas)), 2),
        }

    def _at(self, at_s: float, event: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (at_s, next(self._numbers), event))

    def _arrive(self, now_s: float) -> None:
        self._at(next(self._arrivals), self._arrive)
        self._ask(self._sessions.begin(), now_s)

    def _ask(self, session: Session, now_s: float) -> None:
        turn = self._sessions.turn(session)
        view = self._random.choice(self._views)
        name = view.choose(turn.key)
        replica = self._replicas[name]
        num_hit, first_s, end_s = replica.take(turn, now_s)
        view.sent(name, turn.key, replica.num_ongoing)
        self._count(turn, name, num_hit, first_s - now_s)
        self._at(end_s, lambda at_s: self._end(session, view, name, at_s))

    def _end(self, session: Session, view: RouterView, name: str, now_s: float) -> None:
        if name in self._replicas:
            self._replicas[name].num_ongoing -= 1
            view.ended(name)
        if session.num_turns_left > 0:
            self._at(now_s + self._sessions.pause_s(session), lambda at_s: self._ask(session, at_s))

    def _count(self, turn: Turn, name: str, num_hit: int, wait_s: float) -> None:
        session = turn.session
        shared = session.prefix_len if session.app in self._seen else 0
        self._seen.add(session.app)
        self.num_requests += 1
        self.num_tokens += turn.prompt_len
        self.num_hit += num_hit
        self.num_hit_at_best += turn.known_len or min(shared, turn.prompt_len - 1)
        self.waits_s.append(wait_s)
        self.of_replica[name] += 1
        if self._homes.get(session.number, name) not in self._replicas:
            self.num_again += turn.known_len - num_hit
        self._homes[session.number] = name

    def _kill(self) -> None:
        """Ends one replica at random; another one takes its place in time."""
        name = self._random.choice(list(self._replicas))
        self.num_lost += self._replicas.pop(name).num_ongoing
        for view in self._views:
            view.lost(name)
        self._at(self._now_s + RESTART_S, self._restart)

    def _restart(self, now_s: float) -> None:
        self._replicas[f"replica-{next(self._names)}"] = Replica()
        for view in self._views:
            view.router.update(list(self._replicas))


def cache_aware(num_routers: int, **costs: float) -> list[Router]:
    """Routers that Ray's ingresses have, each with a memory of its own."""
    return [Routing(RoutingCosts(**costs), seed=number) for number in range(num_routers)]
