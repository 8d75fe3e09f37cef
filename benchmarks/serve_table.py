"""The service's table: `specguide serve` of a checkpoint folder under a list of loads.

    python -m benchmarks.serve_table [FOLDER] --load-tool serve-load/load.py
        [--concurrency 1,16,64,128] [--requests 3x] [--prompt-len 512] [--max-tokens 128]
        [--loads free,chat,guided,mixed] [--out table.jsonl] [-- OPTIONS OF serve …]

Starts the server on a free port, waits until it is ready, runs the load tool once for each load,
stops the server. The tool is any program that takes the options of `command` below, prints one JSON
line with `levels` and exits with 0 where all answers were good. Prints these lines' figures as a
table, then one JSON line. Exits with 1 where a load went wrong, or the server did not stop.

Random weights never agree with a draft head: `-- --head HEAD --synthetic-acceptance 2.67` accepts
as many drafts as are asked for.
"""

from __future__ import annotations

import argparse
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from benchmarks.common import emit

LOADS = {
    "free": (),
    "chat": ("--api", "chat"),
    "guided": ("--api", "chat", "--guided-share", "1"),
    "mixed": ("--api", "chat", "--guided-share", "0.2"),
}
_GUIDED_FIELD = ("--guided-field", "response_format")
_READY_S = 600.0
_STOP_S = 60.0


@contextmanager
def serving(folder: Path | None, options: Sequence[str]) -> Iterator[str]:
    """The URL of a server that is ready; it is stopped in the end."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    model = [] if folder is None else [str(folder)]
    command = [sys.executable, "-m", "specguide", "serve", *model, "--port", str(port), *options]
    with subprocess.Popen(command) as server:
        try:
            _wait_until_ready(server, f"http://127.0.0.1:{port}/ready")
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(_STOP_S)


def _wait_until_ready(server: subprocess.Popen[bytes], url: str) -> None:
    deadline_s = time.monotonic() + _READY_S
    while time.monotonic() < deadline_s:
        if server.poll() is not None:
            sys.exit(f"the server ended with {server.returncode}")
        try:
            if httpx.get(url).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.5)
    sys.exit(f"the server was not ready within {_READY_S:.0f} s")


def command(args: argparse.Namespace, url: str, load: str) -> list[str]:
    """What runs the load tool."""
    sizes = ("concurrency", "requests", "prompt_len", "max_tokens")
    words = [sys.executable, str(args.load_tool), "--url", url, "--label", load]
    for name in sizes:
        words += [f"--{name.replace('_', '-')}", str(getattr(args, name))]
    return [*words, *LOADS[load], *_GUIDED_FIELD, *args.load_options.split()]


def run(args: argparse.Namespace) -> tuple[dict[str, Any], bool]:
    """What each load came to, and whether all were good."""
    found, is_good = {}, True
    with serving(args.folder, args.serve_options) as url:
        for load in args.loads.split(","):
            done = subprocess.run(command(args, url, load), stdout=subprocess.PIPE, text=True)
            is_good &= done.returncode == 0
            if done.stdout.strip():
                found[load] = json.loads(done.stdout.splitlines()[-1])["levels"]
    return found, is_good


def table(found: dict[str, Any]) -> Iterator[str]:
    """One line for each load and number of clients; times in milliseconds."""
    yield "| load | clients | tokens/s | TTFT p50 | p99 | TPOT p50 | gap p99 | tokens a chunk |"
    yield "|---|---|---|---|---|---|---|---|"
    for load, levels in found.items():
        for level in levels:
            times = [
                level.get(name, {}).get(quantile)
                for name, quantile in (
                    ("ttft_ms", "p50"),
                    ("ttft_ms", "p99"),
                    ("tpot_ms", "p50"),
                    ("gap_ms", "p99"),
                )
            ]
            cells = [
                level["concurrency"],
                level.get("tok_s"),
                *times,
                level.get("tokens_per_chunk"),
            ]
            yield f"| {load} | {' | '.join(map(str, cells))} |"


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--load-tool", type=Path, required=True)
    parser.add_argument("--load-options", default="", help="further ones, as one word")
    parser.add_argument("--concurrency", default="1,16,64,128")
    parser.add_argument("--requests", default="3x")
    parser.add_argument("--prompt-len", default="512")
    parser.add_argument("--max-tokens", default="128")
    parser.add_argument("--loads", default=",".join(LOADS))
    parser.add_argument("--out", type=Path, help="write the JSON line there too")
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    args = parser.parse_args(words[:split])
    args.serve_options = words[split + 1 :]
    found, is_good = run(args)
    print("\n".join(table(found)))
    config = {name: str(value) for name, value in vars(args).items()}
    if args.out is not None:
        args.out.write_text(json.dumps({"config": config, "loads": found}) + "\n")
    emit("serve_table", config, found, save=False)
    raise SystemExit(0 if is_good and found else 1)


if __name__ == "__main__":
    main()
