"""How 8 to 4,096 replicas behind routers perform: the memory and time of a decision, the prompts
that are computed again, the waits, and what a lost replica costs.

    python -m benchmarks.replicas [--replicas 8,64,512,4096] [--requests 6000,16000,30000,60000]
    [--rate 12] [--replicas-a-router 64] [--kills 4] [--seed 0] [--no-save]

The routing is the very class that Ray's router runs; replicas are a clock, a cache of 512,000
tokens and a device that takes what an 8B model takes on one H200 (`simulations.replicas`); who asks
is drawn from shapes of traffic (`simulations.replica_traffic`), `rate` requests a second for each
replica. Three tables: a router whose memory is full, which is timed; routings side by side, on the
same sessions; and replicas that are killed. Then one JSON line.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from typing import Any

import numpy as np

from benchmarks.common import argument_parser, emit
from benchmarks.simulations.replica_traffic import Sessions
from benchmarks.simulations.replicas import (
    RESTART_S,
    LeastOfTwo,
    ReplicaSimulation,
    Router,
    cache_aware,
)
from specguide.serve_ray.routing import MOST_A_REPLICA, Routing, RoutingKey

_TIMED = 2_000
_MOST_ENTRIES = 1 << 20


def fresh_keys(seed: int) -> list[RoutingKey]:
    """Keys of sessions' turns, no two of them equal."""
    sessions = Sessions(seed)
    return [sessions.turn(sessions.begin()).key for _ in range(_TIMED)]


def full_router(num_replicas: int) -> dict[str, Any]:
    """One row: bytes of a router that remembers as much as it may, and microseconds of what it does
    then."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    routing = Routing(max_entries=_MOST_ENTRIES)
    names = [f"replica-{number}" for number in range(num_replicas)]
    routing.update(names)
    number = 0
    for name in names:
        for _ in range(min(MOST_A_REPLICA, _MOST_ENTRIES // num_replicas) // 16 + 1):
            routing.note(name, RoutingKey(tuple(range(number, number + 16)), (256,) * 16))
            number += 16
    num_bytes = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    choose_us, note_us, num_asked = [], [], []
    for key in fresh_keys(num_replicas):
        start_s = time.perf_counter()
        chosen = routing.choose(key, lambda name: 0)
        choose_us.append(1e6 * (time.perf_counter() - start_s))
        start_s = time.perf_counter()
        routing.note(chosen[0], key)
        note_us.append(1e6 * (time.perf_counter() - start_s))
        num_asked.append(len(chosen))
    start_s = time.perf_counter()
    routing.remove("replica-1")
    removed_s = time.perf_counter()
    routing.add("replica-1")
    return {
        "replicas": num_replicas,
        "entries": routing.num_entries,
        "MB": round(num_bytes / 1e6),
        "asked_max": max(num_asked),
        "choose_us_p50": round(float(np.percentile(choose_us, 50)), 1),
        "choose_us_p99": round(float(np.percentile(choose_us, 99)), 1),
        "note_us_p50": round(float(np.percentile(note_us, 50)), 1),
        "remove_ms": round(1e3 * (removed_s - start_s), 2),
        "add_ms": round(1e3 * (time.perf_counter() - removed_s), 2),
    }


def routings(num_replicas: int, replicas_a_router: int) -> dict[str, list[Router]]:
    """The routings that are compared, by name."""
    several = max(2, num_replicas // replicas_a_router)
    return {
        "least of two": [LeastOfTwo(0)],
        "ours, 1 router": cache_aware(1, hope=0.0),
        f"ours, {several} routers": cache_aware(several),
    }


def simulated(args: argparse.Namespace, num_replicas: int, num_requests: int) -> list[Any]:
    """Rows: each routing on the same sessions."""
    rows = []
    for name, routers in routings(num_replicas, args.replicas_a_router).items():
        simulation = ReplicaSimulation(num_replicas, routers, args.rate, args.seed)
        simulation.run(num_requests)
        rows.append({"replicas": num_replicas, "routing": name, **simulation.figures()})
        print_row(rows[-1])
    return rows


def killed(args: argparse.Namespace, num_replicas: int, num_requests: int) -> dict[str, Any]:
    """One row: what a lost replica costs."""
    simulation = ReplicaSimulation(num_replicas, cache_aware(1, hope=0.0), args.rate, args.seed)
    simulation.run(num_requests, args.kills)
    return {
        "replicas": num_replicas,
        "kills": args.kills,
        "requests_lost_each": round(simulation.num_lost / args.kills, 1),
        "tokens_again_each": round(simulation.num_again / args.kills),
        **simulation.figures(),
    }


def print_row(row: dict[str, Any]) -> None:
    """Prints a row of the Markdown table."""
    print("|", " | ".join(str(value) for value in row.values()), "|", flush=True)


def print_head(row: dict[str, Any]) -> None:
    """The names of the columns."""
    print("\n|", " | ".join(row), "|")


def main() -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("--replicas", default="8,64,512,4096")
    parser.add_argument("--requests", default="6000,16000,30000,60000")
    parser.add_argument("--rate", type=float, default=12.0)
    parser.add_argument("--replicas-a-router", type=int, default=64)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    sizes = [int(number) for number in args.replicas.split(",")]
    requests = [int(number) for number in args.requests.split(",")]
    result: dict[str, Any] = {"full_routers": [], "routings": [], "kills": []}
    for size in sizes:
        result["full_routers"].append(full_router(size))
        print_head(result["full_routers"][-1])
        print_row(result["full_routers"][-1])
    for size, number in zip(sizes, requests, strict=True):
        print()
        result["routings"] += simulated(args, size, number)
    for size, number in list(zip(sizes, requests, strict=True))[:2]:
        result["kills"].append(killed(args, size, number))
        print_head(result["kills"][-1])
        print_row(result["kills"][-1])
    emit("replicas", vars(args) | {"restart_s": RESTART_S}, result, save=not args.no_save)


if __name__ == "__main__":
    main()
