"""Owns the latency of a well-behaved client of the API server while others are hostile.

A server of its own process with default limits, but short ones of time; beside each kind of hostile request, sent over
and over by a few threads, one client sends short guided requests. Its latency is compared with a quiet server's. Last,
new schemas are sent beside schemas that take long to compile, see hostile_compile.

    python -m benchmarks.hostile --seconds 5
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import httpx

from benchmarks import hostile_compile
from benchmarks.common import emit
from benchmarks.hostile_load import ENDLESS, EXPONENTIAL, Neighbour, chat, head, post, slow_grammar, too_much

Attack = Callable[[], str]
"""One hostile request; returns what became of it."""


class Server:
    """`specguide serve` on a free port, until it is stopped."""

    def __init__(self, max_batch_size: int) -> None:
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "specguide", "serve", "--port", str(self.port), "--served-model-name", "small",
             "--max-batch-size", str(max_batch_size), "--max-waiting", "64"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while self.is_alive and not self.answers():
            time.sleep(0.1)

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def answers(self) -> bool:
        """Whether it is well."""
        with contextlib.suppress(httpx.HTTPError):
            return httpx.get(f"{self.url}/health", timeout=10).status_code == 200
        return False

    def connect(self, text: bytes) -> socket.socket:
        """A connection on which this has been sent."""
        one = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        one.sendall(text)
        return one

    def stop(self) -> None:
        """Ends it."""
        self._process.terminate()
        self._process.wait()


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
        with server.connect(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 104857600\r\n\r\n") as one:
            with contextlib.suppress(OSError):
                for _ in range(100):
                    one.sendall(b" " * (1 << 20))
            return one.recv(100)[9:12].decode()

    yield "nothing", lambda: time.sleep(0.1) or "waited"  # type: ignore[func-returns-value]
    yield "body of 100 MB", large
    yield "leaving in the middle", left
    yield "half-open connections", half_open
    yield from ((name, posted(body)) for name, body in too_much().items())
    numbers, regexes = count(), count()
    yield "exponential regex", lambda: posted(chat(guided_regex=f"{EXPONENTIAL[next(regexes) % 5]}", max_tokens=8))()
    yield "grammars that compile for seconds", lambda: posted(slow_grammar(next(numbers)))()


def under(server: Server, attack: Attack, num_threads: int, seconds: float) -> dict[str, Any]:
    """What became of the hostile requests, and the latency beside them, ms."""
    outcomes: Counter[str] = Counter()
    end = time.perf_counter() + seconds

    def repeat() -> None:
        while time.perf_counter() < end:
            try:
                outcomes[attack()] += 1
            except (OSError, httpx.HTTPError) as error:
                outcomes[type(error).__name__] += 1
                time.sleep(0.1)

    threads = [threading.Thread(target=repeat) for _ in range(num_threads)]
    with Neighbour(server.url) as neighbour:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    ordered = sorted(1e3 * one for one in neighbour.seconds)
    return {"hostile": dict(outcomes), "answers": len(neighbour.seconds), "statuses": sorted(neighbour.statuses),
            "p50_ms": round(ordered[len(ordered) // 2], 1), "p99_ms": round(ordered[len(ordered) * 99 // 100], 1)}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each kind")
    parser.add_argument("--threads", type=int, default=1, help="hostile clients")
    parser.add_argument("--max-batch-size", type=int, default=8)
    parser.add_argument("--only", default="", help="kinds that have this in their name, and nothing")
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    server = Server(args.max_batch_size)
    rows, faults = [], []
    under(server, lambda: time.sleep(0.1) or "waited", 1, 1.0)  # type: ignore[func-returns-value]
    for name, attack in attacks(server):
        if name != "nothing" and args.only not in name:
            continue
        rows.append({"attack": name, **under(server, attack, args.threads, args.seconds)})
        row = rows[-1]
        print(f"{name:34} p50 {row['p50_ms']:8.1f} ms   p99 {row['p99_ms']:8.1f} ms   {row['hostile']}", flush=True)
        if not server.is_alive or not server.answers() or row["statuses"] != [200]:
            faults.append(f"{name}: alive {server.is_alive}, the neighbour was told {row['statuses']}")
        if not server.is_alive:
            server = Server(args.max_batch_size)
    if args.only in hostile_compile.NAME:
        rows.append(hostile_compile.denial(server.url))
        print(*(f"{key:15} {value}" for key, value in rows[-1].items()), sep="\n", flush=True)
        faults += hostile_compile.faults_of(rows[-1])
    server.stop()
    emit("hostile", {key: value for key, value in vars(args).items() if key != "no_save"}, rows, save=not args.no_save)
    for fault in faults:
        print(fault, file=sys.stderr)
    raise SystemExit(1 if faults else 0)


if __name__ == "__main__":
    main()
