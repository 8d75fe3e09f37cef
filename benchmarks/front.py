"""How many tokens per second fronts stream, and what a token costs them. It runs the processes of
`specguide serve` with an engine without a model, which gives tokens at a fixed pace, and clients
that read streams of completions.

    python -m benchmarks.front [--kinds chat,tools] [--fronts N] [--clients N] [--iteration-ms F]
    [--tokens N]

Every answer is compared with its text. The CPU time of a front per token shows how many tokens one
core can stream; tokens/s are those of this machine, clients included. The bar is 60,000 tokens/s
with 4 fronts on 16 cores:

    python -m benchmarks.front --fronts 4 --client-processes 6
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.common import argument_parser, emit
from benchmarks.services.front_kinds import KINDS, Kind
from benchmarks.services.paced_engine import PACE
from benchmarks.services.process import CORE, FRONT, cpu_s
from specguide.config import EngineConfig
from specguide.engine.setup.target_folder import target_folder
from specguide.server.config import ServerConfig
from specguide.server.processes.plans import ServicePlan
from specguide.server.processes.supervisor import Supervisor
from specguide.tokenizer import Tokenizer

_SPAWN = multiprocessing.get_context("spawn")
_PACED = "benchmarks.services.paced_engine:run_paced_core"
_END = b"data: [DONE]\n\n"
_MAX_TOKENS = 256


def serve(pace: str, kind: str, num_fronts: int, told: Connection) -> None:
    """A service's supervisor, in a process of its own."""
    os.environ[PACE] = f"{pace},{kind}"
    fixed: dict[str, Any] = {"port": 0, "max_waiting": 4096, "drain_s": 0.0}
    config = ServerConfig("small", api_servers=num_fronts, **fixed, **KINDS[kind].server)
    Supervisor(ServicePlan(EngineConfig(), config), told.send, core=_PACED).run()


@contextmanager
def serving(pace: str, kind: str, num_fronts: int) -> Iterator[tuple[int, int]]:
    """Its process id and its port."""
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=serve, args=(pace, kind, num_fronts, theirs))
    process.start()
    theirs.close()  # what waits for a service that has ended is told so
    while not (line := ours.recv()).startswith("serving on"):
        pass
    try:
        yield process.pid or 0, int(line.rsplit(":", 1)[1])
    finally:
        process.terminate()
        process.join()


def read_streams(port: int, kind: str, numbers: list[int], until_s: float) -> tuple[int, int]:
    """Read the streams of some clients, one request after another. Returns the number of tokens,
    and of chunks in which they came; exits where one is wrong."""
    return asyncio.run(_clients(port, KINDS[kind], numbers, until_s))


async def _clients(port: int, kind: Kind, numbers: list[int], until_s: float) -> tuple[int, int]:
    tokenizer = Tokenizer.from_folder(target_folder(None))
    clients = (_client(port, kind, number, until_s, tokenizer) for number in numbers)
    counts = await asyncio.gather(*clients)
    return sum(tokens for tokens, _ in counts), sum(chunks for _, chunks in counts)


async def _client(
    port: int, kind: Kind, number: int, until_s: float, tokenizer: Tokenizer
) -> tuple[int, int]:
    expected, body = kind.expected(tokenizer, number, _MAX_TOKENS), kind.body(number, _MAX_TOKENS)
    head = f"POST /v1/{kind.path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    request = head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    num_tokens = num_chunks = 0
    while not num_tokens or time.time() < until_s:
        writer.write(request)
        answer = b""
        while _END not in answer or not answer.endswith(b"0\r\n\r\n"):
            answer += await reader.read(1 << 16)
            if not answer.startswith(b"HTTP/1.1 200"):
                sys.exit(f"client {number} was answered: {answer.decode()}")
        pieces = _pieces(kind, answer)
        if "".join(pieces) != expected:
            sys.exit(f"client {number} was answered wrongly: {pieces}")
        num_tokens += _MAX_TOKENS
        num_chunks += sum(map(bool, pieces))
    writer.close()
    return num_tokens, num_chunks


def _pieces(kind: Kind, answer: bytes) -> list[str]:
    lines = [line[6:] for line in answer.split(b"\r\n") if line.startswith(b"data: {")]
    chunks = [json.loads(one.removeprefix(b"data: ")) for line in lines for one in _events(line)]
    return [kind.read(choice) for chunk in chunks for choice in chunk["choices"]]


def _events(line: bytes) -> list[bytes]:
    return [one for one in line.strip().split(b"\n\n") if one != b"data: [DONE]"]


def measure(kind: str, args: argparse.Namespace) -> dict[str, Any]:
    """Figures of one kind of requests."""
    pace = f"{args.iteration_ms},{args.tokens}"
    shares = range(args.client_processes)
    with (
        serving(pace, kind, args.fronts) as (service, port),
        ProcessPoolExecutor(args.client_processes, mp_context=_SPAWN) as pool,
    ):

        def ask(numbers: list[int], until_s: float) -> Future[tuple[int, int]]:
            return pool.submit(read_streams, port, kind, numbers, until_s)

        for job in [ask([0, 1], 0.0) for _ in shares]:  # imports
            job.result()
        before_s, start_s = cpu_s(service, FRONT), cpu_s(service, CORE)
        began_s = time.time()
        numbers = [list(range(args.clients))[at :: args.client_processes] for at in shares]
        jobs = [ask(one, began_s + args.seconds) for one in numbers]
        counts = [job.result() for job in jobs]
        num_tokens, num_chunks = (sum(some) for some in zip(*counts, strict=True))
        seconds = time.time() - began_s
        front_s = cpu_s(service, FRONT) - before_s
        core_s = cpu_s(service, CORE) - start_s
    return {
        "kind": kind,
        "tokens_per_s": round(num_tokens / seconds),
        "tokens_per_chunk": round(num_tokens / num_chunks, 2),
        "front_cpu_us_per_token": round(1e6 * front_s / num_tokens, 1),
        "core_cpu_us_per_token": round(1e6 * core_s / num_tokens, 1),
        "tokens_per_s_of_a_busy_front": round(num_tokens / front_s),
    }


def main() -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--fronts", type=int, default=1)
    parser.add_argument("--clients", type=int, default=256)
    parser.add_argument("--client-processes", type=int, default=1)
    parser.add_argument("--iteration-ms", type=float, default=40.0)
    parser.add_argument("--tokens", type=int, default=1, help="of a request and iteration")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    kinds = args.kinds.split(",")
    if unknown := set(kinds) - KINDS.keys():
        parser.error(f"--kinds {', '.join(sorted(unknown))}: there are {', '.join(KINDS)}")
    rows: list[dict[str, Any]] = []
    for kind in kinds:
        rows.append(measure(kind, args))
        if len(rows) == 1:
            print(" ".join(f"{name:>28}" for name in rows[0]))
        print(" ".join(f"{value:>28}" for value in rows[-1].values()), flush=True)
    emit("front", vars(args), rows, save=not args.no_save)


if __name__ == "__main__":
    main()
