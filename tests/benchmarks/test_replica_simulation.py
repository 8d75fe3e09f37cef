"""The simulation of replicas: what it counts adds up, and routing by prefix gains."""

from __future__ import annotations

from itertools import pairwise

from benchmarks.simulations.replica_traffic import KINDS, TOKEN_BYTES, Sessions
from benchmarks.simulations.replicas import LeastOfTwo, ReplicaSimulation, cache_aware


def test_a_session_keeps_its_prefix():
    sessions = Sessions(3)
    session = next(s for s in iter(sessions.begin, None) if s.num_turns_left > 3)
    turns = [sessions.turn(session) for _ in range(3)]
    for before, after in pairwise(turns):
        assert after.known_len == before.prompt_len + before.output_len < after.prompt_len
        assert after.key.prefixes[: len(before.key.prefixes)] == before.key.prefixes
        assert after.key.num_bytes == TOKEN_BYTES * after.prompt_len
    assert abs(sum(kind.share for kind in KINDS) - 1) < 1e-9


def test_routing_by_prefix_finds_more():
    hits = {}
    for name, routers in (("two", [LeastOfTwo(0)]), ("one", cache_aware(1, hope=0.0))):
        simulation = ReplicaSimulation(8, routers, 12.0)
        simulation.run(600)
        assert simulation.num_requests == sum(simulation.of_replica.values()) == 600
        assert 0 <= simulation.num_hit <= simulation.num_tokens
        hits[name] = simulation.figures()["hit_of_best"]
    assert hits["two"] < 0.7 < 0.95 < hits["one"] <= 1


def test_killed_replicas_are_forgotten_and_replaced():
    (router,) = routers = cache_aware(1)
    simulation = ReplicaSimulation(4, routers, 12.0)
    simulation.run(800, kills=2)
    assert simulation.num_lost > 0 and simulation.num_again > 0
    assert set(router.replicas) == set(simulation._replicas)
    held = {name for holders in router._holders.values() for name in holders}
    assert held <= set(simulation._replicas) and 2 <= len(simulation._replicas) <= 4
