"""How long `specguide serve` takes to be ready, and that it serves many requests at once with no
option given.

    python -m benchmarks.startup FOLDER [--requests 64] [--head FOLDER] [--no-save]

Starts the server twice, with kernels that have never been compiled (an empty Triton cache) and with
those of the first run. Each time it takes the seconds to /ready, and what the server says of its
cache; then all requests are sent at once, and each answer's number of tokens is checked. Prints a
table, then one JSON line.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import torch

from benchmarks.common import argument_parser, emit
from benchmarks.services.process import free_port

_MAX_TOKENS = 64
_MOST_S = 300.0


class Server:
    """`specguide serve` in a process of its own. lines: what it has written, each with the second
    that it came"""

    def __init__(self, arguments: list[str], kernels: str) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "specguide", "serve", *arguments, "--port", str(port)]
        self.lines: list[tuple[float, str]] = []
        self._start = time.monotonic()
        environment = os.environ | {"TRITON_CACHE_DIR": kernels}
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:  # of a progress bar the last state
            text = line.decode(errors="replace").rstrip().rsplit("\r", 1)[-1]
            self.lines.append((round(time.monotonic() - self._start, 1), text))

    def wait_ready(self) -> float:
        """Seconds from its start until /ready says so."""
        while time.monotonic() - self._start < _MOST_S:
            if self._process.poll() is not None:
                break
            try:
                if httpx.get(f"{self.url}/ready").status_code == 200:
                    return time.monotonic() - self._start
            except httpx.HTTPError:
                time.sleep(0.05)
        self.stop()
        sys.exit(
            "the server did not get ready:\n" + "\n".join(text for _, text in self.lines[-30:])
        )

    def stop(self) -> None:
        """Ends it."""
        self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()


async def burst(url: str, num_requests: int) -> dict[str, float]:
    """Sends all requests at once. Exits where one is not answered in full."""
    async with httpx.AsyncClient(
        base_url=url, timeout=_MOST_S, limits=httpx.Limits(max_connections=None)
    ) as client:
        model = (await client.get("/v1/models")).json()["data"][0]["id"]
        start = time.monotonic()
        answers = await asyncio.gather(
            *(
                client.post(
                    "/v1/completions",
                    json={
                        "model": model,
                        "prompt": [1000 + (17 * index + place) % 5000 for place in range(256)],
                        "max_tokens": _MAX_TOKENS,
                        "ignore_eos": True,
                        "temperature": 0,
                    },
                )
                for index in range(num_requests)
            )
        )
        seconds = time.monotonic() - start
    for answer in answers:
        if answer.status_code != 200 or answer.json()["usage"]["completion_tokens"] != _MAX_TOKENS:
            sys.exit(f"a request was not answered: {answer.status_code} {answer.text[:500]}")
    return {
        "requests": num_requests,
        "seconds": round(seconds, 2),
        "tokens_per_s": round(num_requests * _MAX_TOKENS / seconds),
    }


def main() -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--head", type=Path)
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    print(torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU")
    arguments = [
        *([str(args.folder)] if args.folder else []),
        *(["--head", str(args.head)] if args.head else []),
    ]
    result: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as kernels:
        for name in ("cold", "kernels compiled"):
            server = Server(arguments, kernels)
            ready_s = server.wait_ready()
            result[name] = {
                "ready_s": round(ready_s, 1),
                "cache": next(
                    (text for _, text in server.lines if text.startswith("KV cache")), None
                ),
                **asyncio.run(burst(server.url, args.requests)),
            }
            server.stop()
            print(f"{name}: {result[name]}", flush=True)
            for second, text in server.lines:
                print(f"  {second:6.1f} s  {text[:150]}", flush=True)
    emit(
        "startup",
        {
            "model": args.folder.name if args.folder else "shipped",
            "head": bool(args.head),
            "requests": args.requests,
        },
        result,
        save=not args.no_save,
    )


if __name__ == "__main__":
    main()
