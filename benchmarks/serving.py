"""What guided requests cost the other requests: the same requests at a fixed concurrency, a share
of them guided.

    python -m benchmarks.serving [--requests 2000] [--concurrency 64] [--shares 0,5,20,100,0]
                                 [--max-tokens 100] [--rounds 5]

The shipped model. All prompts ask for long lists, which max_tokens cuts off; what guided outputs
have must match the schema of the list, and free ones go on to max_tokens. The shares take turns in
each round, so that a host that is slow for a while is slow for all. What a share costs is told by
the iterations that only decode, median by round, as a ratio to the first share's of the same round:
a prefill is launched kernel by kernel, so the time per token is mostly the host's, and unsteady.
Exits with 1 when a request is lost, a guided output leaves its grammar, a free one has another
length, or memory grows. Prints a table, then one JSON line.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from statistics import fmean, median
from typing import Any

from benchmarks.common import argument_parser, emit
from benchmarks.soaks.jobs import Job, lists, params_of
from benchmarks.soaks.ledger import Ledger
from benchmarks.soaks.memory import Memory, in_mb, memory_faults
from benchmarks.soaks.watched_engine import WatchedEngine
from specguide.config import EngineConfig, SpecConfig
from specguide.params import SamplingParams
from specguide.request import Request


def load(
    pool: Sequence[Job], num_requests: int, share: float, max_tokens: int
) -> deque[tuple[Job, SamplingParams]]:
    """Every request's job and parameters; which are guided is drawn."""
    guided = set(random.Random(7).sample(range(num_requests), round(share * num_requests)))
    free = SamplingParams(max_tokens=max_tokens, ignore_eos=True)

    def cut(job: Job) -> SamplingParams:
        return replace(params_of(job), max_tokens=max_tokens, allow_truncation=True)

    every = zip(range(num_requests), cycle(pool), strict=False)
    return deque((job, cut(job) if number in guided else free) for number, job in every)


class Run:
    """One share of guided requests, served."""

    def __init__(
        self, engine: WatchedEngine, waiting: deque[tuple[Job, SamplingParams]], concurrency: int
    ) -> None:
        self.ledger = Ledger(engine.tokenizer, engine.grammar_of)
        self.free, self.faults = list[Request](), list[str]()
        before = engine.stats()
        half = len(waiting) // 2
        memory = None
        engine.pause()
        first = len(engine.iterations)
        begin = time.perf_counter()
        while waiting or engine.num_unfinished:
            while waiting and engine.num_unfinished < concurrency:
                job, params = waiting.popleft()
                request = engine.add(job.prompt_ids, params)
                if params.guide is not None:
                    self.ledger.add(request, job)
            if memory is None and len(waiting) <= half:
                memory = Memory.now()
            for request in engine.step():
                self._take(request)
        self.seconds = time.perf_counter() - begin
        self.num_tokens = engine.stats().output_tokens - before.output_tokens
        self.iterations = engine.stats().iterations - before.iterations
        self.decode_ms = median(each.ms for each in engine.iterations[first:] if not each.prefills)
        self.ledger.close()
        self.memory = Memory.now()
        self.faults += [*self.ledger.faults, *memory_faults(memory or self.memory, self.memory)]
        engine.check_integrity()

    def _take(self, request: Request) -> None:
        if request.params.guide is not None:
            self.ledger.take(request)
            return
        self.free.append(request)
        if len(request.output_ids) != request.params.max_tokens:
            self.faults.append(
                f"request {request.request_id} has {len(request.output_ids)} tokens: "
                f"{request.error}"
            )

    @property
    def free_tpot_ms(self) -> float | None:
        """Mean of the free requests; None where there are none."""
        return 1e3 * fmean(request.metrics.tpot_s for request in self.free) if self.free else None


def row(share: float, runs: Sequence[Run], first: Sequence[Run]) -> dict[str, Any]:
    """The figures of one share's runs, a round each, compared with the first share's runs in the
    same rounds."""
    ratios = [run.decode_ms / than.decode_ms for run, than in zip(runs, first, strict=True)]
    seconds, guided = (
        sum(run.seconds for run in runs),
        sum(run.ledger.totals["requests"] for run in runs),
    )
    return {
        "guided_share": share,
        "requests": guided + sum(len(run.free) for run in runs),
        "guided": guided,
        "seconds": round(seconds, 2),
        "tokens_per_s": round(sum(run.num_tokens for run in runs) / seconds),
        "iterations": sum(run.iterations for run in runs),
        "free_tpot_ms": [round(run.free_tpot_ms, 3) for run in runs if run.free_tpot_ms],
        "decode_ms": [round(run.decode_ms, 4) for run in runs],
        "decode_ratio": round(median(ratios), 3),
        "memory_mb": in_mb(runs[-1].memory),
        "faults": [fault for run in runs for fault in run.faults],
    }


def _arguments() -> argparse.Namespace:
    parser = argument_parser(__doc__)
    parser.add_argument("--requests", type=int, default=2000, help="of each share")
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument(
        "--shares", default="0,5,20,100,0", help="guided, per cent; the first is compared with"
    )
    parser.add_argument("--max-tokens", type=int, default=100)
    parser.add_argument(
        "--samples", type=int, default=12, help="tasks of each group, from which requests are made"
    )
    parser.add_argument("--rounds", type=int, default=5, help="in which each share has its turn")
    parser.add_argument("--no-save", action="store_true")
    return parser.parse_args()


def main() -> None:
    """Run the benchmark."""
    args = _arguments()
    engine = WatchedEngine(EngineConfig(spec=SpecConfig(), max_batch_size=args.concurrency))
    pool = lists(engine.tokenizer, args.samples, seed=31)
    engine.warm_up()
    for share in (0.0, 1.0):  # kernels and grammars
        Run(engine, load(pool, 2 * max(len(pool), args.concurrency), share, 8), args.concurrency)
    shares = [float(share) / 100 for share in args.shares.split(",")]
    runs: list[list[Run]] = [[] for _ in shares]
    for turn in range(args.rounds):
        for place in sorted(range(len(shares)), key=lambda place: (place + turn) % len(shares)):
            waiting = load(pool, args.requests // args.rounds, shares[place], args.max_tokens)
            runs[place].append(Run(engine, waiting, args.concurrency))
    rows = [row(share, of_share, runs[0]) for share, of_share in zip(shares, runs, strict=True)]
    for one in rows:
        print(
            (
                "{guided_share:>5.0%} guided: {tokens_per_s:>7,} tokens/s, {iterations} "
                "iterations, free requests' ms per token {free_tpot_ms}, ms per "
                "decode iteration {decode_ms}, ratio {decode_ratio}"
            ).format_map(one)
        )
    engine.close()
    emit("serving", {**vars(args), "jobs": len(pool)}, rows, save=not args.no_save)
    faults = [
        f"{row['guided_share']:.0%} guided: {fault}" for row in rows for fault in row["faults"]
    ]
    for fault in faults[:20]:
        print(fault, file=sys.stderr)
    raise SystemExit(1 if faults else 0)


if __name__ == "__main__":
    main()
