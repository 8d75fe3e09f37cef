"""How many tokens a second fronts stream, and what a token costs them: the processes of `specguide
serve` with an engine that has no model and gives tokens at a pace, and clients that read streams of
completions.

    python -m benchmarks.front [--fronts N] [--clients N] [--iteration-ms F] [--tokens N]

Every answer is compared with its text. A front's CPU time for a token says what one core of the
machine has room for; tokens/s are those of this machine, clients included. The bar is 60,000
tokens/s with 4 fronts on 16 cores:

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
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.common import emit
from benchmarks.paced_engine import PACE, output_ids
from specguide.config import EngineConfig
from specguide.engine.target_folder import target_folder
from specguide.scheduler.output_text import OutputText
from specguide.server.config import ServerConfig
from specguide.server.plans import ServicePlan
from specguide.server.supervisor import Supervisor
from specguide.tokenizer import Tokenizer

_SPAWN = multiprocessing.get_context("spawn")
_CORE = "benchmarks.paced_engine:run_paced_core"
_END = b"data: [DONE]\n\n"
_MAX_TOKENS = 256
_TICKS = os.sysconf("SC_CLK_TCK")


def serve(pace: str, num_fronts: int, told: Connection) -> None:
    """A service's supervisor, in a process of its own."""
    os.environ[PACE] = pace
    config = ServerConfig("small", port=0, api_servers=num_fronts, max_waiting=4096, drain_s=0.0)
    Supervisor(ServicePlan(EngineConfig(), config), told.send, core=_CORE).run()


@contextmanager
def serving(pace: str, num_fronts: int) -> Iterator[tuple[int, int]]:
    """Its process id and its port."""
    ours, theirs = _SPAWN.Pipe()
    process = _SPAWN.Process(target=serve, args=(pace, num_fronts, theirs))
    process.start()
    while not (line := ours.recv()).startswith("serving on"):
        pass
    try:
        yield process.pid or 0, int(line.rsplit(":", 1)[1])
    finally:
        process.terminate()
        process.join()


def cpu_s(service: int, title: str) -> float:
    """Seconds of CPU that the service's processes of this name have taken."""
    found = 0.0
    for child in Path(f"/proc/{service}/task/{service}/children").read_text().split():
        name, fields = Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)
        if name.endswith(f"({title}"):
            found += sum(map(int, fields.split()[11:13])) / _TICKS
    return found


def read_streams(port: int, numbers: list[int], until_s: float) -> int:
    """Of some clients, one request after another. Returns the tokens; exits where one is wrong."""
    return asyncio.run(_clients(port, numbers, until_s))


async def _clients(port: int, numbers: list[int], until_s: float) -> int:
    tokenizer = Tokenizer.from_folder(target_folder(None))
    return sum(await asyncio.gather(*(_client(port, one, until_s, tokenizer) for one in numbers)))


async def _client(port: int, number: int, until_s: float, tokenizer: Tokenizer) -> int:
    expected = OutputText(tokenizer.detokenizer([number]))  # the prompt may be half a letter
    for token in output_ids(tokenizer, number, _MAX_TOKENS):
        expected.add(token)
    expected.end()
    body = {"model": "small", "prompt": [number], "max_tokens": _MAX_TOKENS, "stream": True}
    text = json.dumps(body).encode()
    head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    request = head.encode() + b"Content-Length: %d\r\n\r\n" % len(text) + text
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    num_tokens = 0
    while time.time() < until_s:
        writer.write(request)
        answer = b""
        while _END not in answer or not answer.endswith(b"0\r\n\r\n"):
            answer += await reader.read(1 << 16)
            if not answer.startswith(b"HTTP/1.1 200"):
                sys.exit(f"client {number} was answered: {answer.decode()}")
        if _text(answer) != expected.text:
            sys.exit(f"client {number} was answered wrongly: {_text(answer)!r}")
        num_tokens += _MAX_TOKENS
    writer.close()
    return num_tokens


def _text(answer: bytes) -> str:
    lines = [line[6:] for line in answer.split(b"\r\n") if line.startswith(b"data: {")]
    chunks = [json.loads(one.removeprefix(b"data: ")) for line in lines for one in _events(line)]
    return "".join(choice["text"] for chunk in chunks for choice in chunk["choices"])


def _events(line: bytes) -> list[bytes]:
    return [one for one in line.strip().split(b"\n\n") if one != b"data: [DONE]"]


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fronts", type=int, default=1)
    parser.add_argument("--clients", type=int, default=256)
    parser.add_argument("--client-processes", type=int, default=1)
    parser.add_argument("--iteration-ms", type=float, default=4.0)
    parser.add_argument("--tokens", type=int, default=1, help="of a request and iteration")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    pace = f"{args.iteration_ms},{args.tokens}"
    with (
        serving(pace, args.fronts) as (service, port),
        ProcessPoolExecutor(args.client_processes, mp_context=_SPAWN) as pool,
    ):
        list(pool.map(read_streams, [port] * 4, [[0, 1]] * 4, [0.0] * 4))  # imports
        before_s, start_s = (cpu_s(service, f"specguide-{name}") for name in ("front", "core"))
        began_s = time.time()
        shares = [
            list(range(args.clients))[at :: args.client_processes]
            for at in range(args.client_processes)
        ]
        jobs = [pool.submit(read_streams, port, one, began_s + args.seconds) for one in shares]
        num_tokens, seconds = sum(job.result() for job in jobs), time.time() - began_s
        front_s = cpu_s(service, "specguide-front") - before_s
        core_s = cpu_s(service, "specguide-core") - start_s
    result = {
        "tokens_per_s": round(num_tokens / seconds),
        "front_cpu_us_per_token": round(1e6 * front_s / num_tokens, 1),
        "core_cpu_us_per_token": round(1e6 * core_s / num_tokens, 1),
        "tokens_per_s_of_a_busy_front": round(num_tokens / front_s),
    }
    for name, value in result.items():
        print(f"{name:32} {value:>12,}")
    emit("front", vars(args), result, save=not args.no_save)


if __name__ == "__main__":
    main()
