"""What the host does in an iteration, and whether the device waits for it: the shipped model,
guided, in small batches.

    python -m benchmarks.host [--batches 1,4,16] [--iterations 400] [--no-save]

From a timeline it takes the host's spans except those in which it waits for results, and the time
from the first to the last mark of the forward stream. Then it prints the most expensive functions
by cProfile, which slows all of them down. Prints one JSON line.
"""

from __future__ import annotations

import cProfile
import json
import pstats
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.common import argument_parser, emit
from benchmarks.soaks.jobs import Job, lists, params_of
from specguide.config import CacheConfig, EngineConfig, SpecConfig
from specguide.engine import Engine
from specguide.trace.spans import FORWARD, HOST

CACHE = CacheConfig(kv_cache_memory_bytes=1 << 30)
"""So that several engines have room on one GPU."""


def engine_of(batch: int, *, trace: bool) -> Engine:
    """Warm."""
    engine = Engine(EngineConfig(spec=SpecConfig(), max_batch_size=batch, trace=trace, cache=CACHE))
    engine.warm_up()
    return engine


def start(engine: Engine, pool: list[Job], batch: int) -> None:
    """Fill all slots, and step until each has its first tokens."""
    requests = [engine.add(job.prompt_ids, params_of(job)) for job in pool[:batch]]
    while not all(request.output_ids for request in requests):
        engine.step()


def decode(engine: Engine, num_iterations: int) -> None:
    """Runs iterations until some request ends, at most so many."""
    for _ in range(num_iterations):
        if engine.step():
            return


def microseconds(engine: Engine) -> dict[str, float]:
    """Medians over the decode iterations of a timeline."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        engine.write_trace(path)
        events = json.loads(path.read_text())["traceEvents"]
    tracks = {
        event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"
    }
    spans = [event for event in events if event["ph"] == "X"]
    forward, host = defaultdict(list), defaultdict(list)
    for span in spans:
        if tracks[span["tid"]] == FORWARD and span["args"].get("phase") == "decode":
            forward[span["args"]["iteration"]].append(span)
        elif tracks[span["tid"]] == HOST:
            host[span["name"]].append(span["dur"])
    device = [
        max(s["ts"] + s["dur"] for s in some) - min(s["ts"] for s in some)
        for some in forward.values()
    ]
    by_span = {f"host_{name}_us": round(median(times), 1) for name, times in host.items()}
    return {
        "device_us": round(median(device), 1),
        "host_us": round(sum(us for name, us in by_span.items() if name != "host_wait_us"), 1),
        **by_span,
    }


def costs(engine: Engine, num_iterations: int, most: int = 12) -> dict[str, float]:
    """Microseconds an iteration in each function alone."""
    profile = cProfile.Profile()
    before = engine.stats().iterations
    profile.runcall(decode, engine, num_iterations)
    num_run = engine.stats().iterations - before
    functions: Any = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    times = {
        f"{Path(file).name}:{line} {name}" if line else name: 1e6 * entry[2] / num_run
        for (file, line, name), entry in functions.items()
    }
    return {
        name: round(us, 1) for name, us in sorted(times.items(), key=lambda item: -item[1])[:most]
    }


def main() -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("--batches", default="1,4,16")
    parser.add_argument("--iterations", type=int, default=400)
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for batch in map(int, args.batches.split(",")):
        row: dict[str, Any] = {"batch_size": batch}
        for trace in (True, False):
            engine = engine_of(batch, trace=trace)
            start(engine, lists(engine.tokenizer, 12, seed=31), batch)
            if trace:
                decode(engine, args.iterations)
                row |= microseconds(engine)
            else:
                row["costs_us"] = costs(engine, args.iterations)
            engine.close()
        rows.append(row)
        print(json.dumps(row, indent=1), flush=True)
    emit(
        "host",
        vars(args),
        rows,
        {"device_us": [row["device_us"] for row in rows]},
        save=not args.no_save,
    )


if __name__ == "__main__":
    main()
