"""The latency of a well-behaved client of the API server during attacks by hostile clients, and
after them.

The server is a process with default limits. A few threads send each kind of hostile request over
and over. Meanwhile, and for a while afterwards, one client sends short guided requests. Its latency
is compared with that of a quiet server; the peak memory of the server's process is recorded too. At
last, new schemas are sent while others take long to compile, see benchmarks.attacks.compiling.

    python -m benchmarks.hostile --seconds 5
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count, cycle
from typing import Any

import httpx

from benchmarks.attacks import compiling
from benchmarks.attacks.bodies import (
    ENDLESS,
    EXPONENTIAL,
    TOO_MUCH,
    chat,
    head,
    post,
    slow_grammar,
)
from benchmarks.attacks.kinds import Attack, kinds
from benchmarks.attacks.neighbour import Neighbour, latency
from benchmarks.attacks.server import LONGEST_END_S, Server
from benchmarks.common import argument_parser, emit


def attacks(server: Server) -> Iterator[tuple[str, Attack]]:
    """Each kind of hostile request by its name."""

    def posted(body: bytes) -> Attack:
        return lambda: str(post(server.url, body).status_code)

    def left() -> str:
        with server.connect(head(chat(**ENDLESS, stream=True))) as one:
            one.recv(100)
        return "left"

    def half_open() -> str:
        with server.connect(b"POST /v1/chat/completions HTTP/1.1\r\nX: "):
            time.sleep(0.05)
        return "left"

    def large() -> str:
        with server.connect(
            b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 104857600\r\n\r\n"
        ) as one:
            with contextlib.suppress(OSError):
                for _ in range(100):
                    one.sendall(b" " * (1 << 20))
            return one.recv(100)[9:12].decode()

    yield "nothing", lambda: time.sleep(0.1) or "waited"  # type: ignore[func-returns-value]
    yield "body of 100 MB", large
    yield "leaving in the middle", left
    yield "half-open connections", half_open
    yield from ((name, posted(make())) for name, make in TOO_MUCH.items())
    numbers, regexes = count(), cycle(EXPONENTIAL)
    yield (
        "exponential regex",
        lambda: posted(chat(guided_regex=next(regexes), max_tokens=8))(),
    )
    yield "grammars that compile for seconds", lambda: posted(slow_grammar(next(numbers)))()
    yield from kinds(server.url, server.connect)


def under(
    server: Server, attack: Attack, num_threads: int, seconds: float, after_s: float
) -> dict[str, Any]:
    """What became of the hostile requests, and the neighbour's latency beside them and after them,
    ms."""
    outcomes: Counter[str] = Counter()
    server.forget_peak()
    with Neighbour(server.url) as neighbour:
        _send(attack, num_threads, seconds, outcomes)
        end = time.perf_counter()
        peak_mb = server.peak_mb()
        time.sleep(after_s)
    taken = list(zip(neighbour.began, neighbour.seconds, strict=False))
    return {
        "hostile": dict(outcomes),
        "answers": len(taken),
        "statuses": sorted(neighbour.statuses),
        **latency([took for began, took in taken if began < end]),
        **latency([took for began, took in taken if began >= end], "after_"),
        "peak_mb": peak_mb,
    }


def _send(attack: Attack, num_threads: int, seconds: float, outcomes: Counter[str]) -> None:
    """Over and over for so long."""
    end = time.perf_counter() + seconds

    def repeat() -> None:
        while time.perf_counter() < end:
            try:
                outcomes[attack()] += 1
            except (OSError, httpx.HTTPError) as error:
                outcomes[type(error).__name__] += 1
                time.sleep(0.1)

    threads = [threading.Thread(target=repeat) for _ in range(num_threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _faults(name: str, row: dict[str, Any], server: Server) -> list[str]:
    """What must not be, in words."""
    faults = []
    if not server.is_alive or not server.answers():
        faults.append(f"the server is {'stuck' if server.is_alive else 'gone'}")
    if row["statuses"] != [200]:
        faults.append(f"the neighbour was told {row['statuses']}")
    if "500" in row["hostile"]:
        faults.append("the hostile client was told 500")
    if None in (row["p50_ms"], row["after_p50_ms"]):
        faults.append("the neighbour waited for all of the time")
    return [f"{name}: {fault}" for fault in faults]


def _arguments() -> argparse.Namespace:
    parser = argument_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each kind")
    parser.add_argument(
        "--after-s", type=float, default=10.0, help="that the neighbour goes on after each kind"
    )
    parser.add_argument("--threads", type=int, default=1, help="hostile clients")
    parser.add_argument("--max-batch-size", type=int, default=8)
    parser.add_argument(
        "--only", default="", help="kinds that have this in their name, and nothing"
    )
    parser.add_argument("--no-save", action="store_true")
    return parser.parse_args()


def main() -> None:
    """Run the benchmark."""
    args = _arguments()
    server = Server(args.max_batch_size)
    rows: list[dict[str, Any]] = []
    faults: list[str] = []
    _send(lambda: str(post(server.url, chat()).status_code), 1, 1.0, Counter())
    for name, attack in attacks(server):
        if name != "nothing" and args.only not in name:
            continue
        row = under(server, attack, args.threads, args.seconds, args.after_s)
        rows.append({"attack": name, **row})
        print(
            f"{name:44} p50 {row['p50_ms']} ms, p99 {row['p99_ms']} ms; after p50 "
            f"{row['after_p50_ms']} ms, p99 {row['after_p99_ms']} ms; {row['peak_mb']} MB; "
            f"{row['hostile']}",
            flush=True,
        )
        faults += _faults(name, row, server)
        if not server.answers():
            server.stop()
            server.start()
    if args.only in compiling.NAME:
        rows.append(compiling.denial(server.url))
        print(*(f"{key:15} {value}" for key, value in rows[-1].items()), sep="\n", flush=True)
        faults += compiling.faults_of(rows[-1])
    if not server.stop():
        faults.append(f"the server did not end within {LONGEST_END_S:g} s of being told to")
    emit(
        "hostile",
        {key: value for key, value in vars(args).items() if key != "no_save"},
        rows,
        save=not args.no_save,
    )
    for fault in faults:
        print(fault, file=sys.stderr)
    raise SystemExit(1 if faults else 0)


if __name__ == "__main__":
    main()
