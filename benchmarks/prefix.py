"""What a shared prompt costs: 100 requests that begin with one long text, against 100 with
different ones.

    python -m benchmarks.prefix [--requests 100] [--shared 1000] [--no-save]

It runs the shipped model. Requests come one after another, so that the time to the first token is
that of a prefill. Checks that the outputs equal those without sharing. Prints one JSON line.
"""

from __future__ import annotations

import random
import statistics
import sys

from benchmarks.common import argument_parser, emit
from specguide.config import EngineConfig, SpecConfig
from specguide.engine import Engine
from specguide.params import SamplingParams
from specguide.request import Request


def run(engine: Engine, prompts: list[list[int]]) -> list[Request]:
    """Sends the prompts, one after another."""
    requests = []
    for prompt in prompts:
        requests.append(engine.add(prompt, SamplingParams(max_tokens=8)))
        while engine.num_unfinished:
            engine.step()
    failed = [request.error for request in requests if request.error]
    if failed:
        sys.exit(f"a request failed: {failed[0]}")
    return requests


def summary(requests: list[Request]) -> dict[str, float]:
    """Figures of all requests but the first, which warms up the engine and computes the shared
    beginning."""
    times = [1e3 * request.metrics.time_to_first_token_s for request in requests[1:]]
    computed = [len(request.prompt_ids) - request.metrics.num_cached for request in requests]
    return {
        "computed_tokens": sum(computed),
        "prompt_tokens": sum(len(request.prompt_ids) for request in requests),
        "median_ttft_ms": round(statistics.median(times), 2),
        "max_ttft_ms": round(max(times), 2),
    }


def main() -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--shared", type=int, default=1000, help="tokens that the prompts share")
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    engine, rng = Engine(EngineConfig(spec=SpecConfig())), random.Random(0)
    words = [rng.randrange(100, 1000) for _ in range(args.shared)]
    tails = [[rng.randrange(100, 1000) for _ in range(20)] for _ in range(args.requests)]
    shared = run(engine, [words + tail for tail in tails])
    different = run(
        engine,
        [
            [number % 800 + 100, number // 800 + 100, *words[2:], *tail]
            for number, tail in enumerate(tails)
        ],
    )
    engine.check_integrity()
    engine.close()
    engine = Engine(EngineConfig(spec=SpecConfig()))
    for request in shared[:: max(1, len(shared) // 5)]:
        engine.reset_prefix_cache()
        if run(engine, [list(request.prompt_ids)])[0].output_ids != request.output_ids:
            sys.exit(f"request {request.request_id} has another output when nothing is shared")
    engine.close()
    rows = {"shared": summary(shared), "different": summary(different)}
    rows["ratio"] = {
        "ttft": round(rows["shared"]["median_ttft_ms"] / rows["different"]["median_ttft_ms"], 3)
    }
    print(rows)
    emit("prefix", vars(args), rows, save=not args.no_save)


if __name__ == "__main__":
    main()
