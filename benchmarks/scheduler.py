"""What the scheduler costs the host, and whether its policy is fair and starves no request.

    python -m benchmarks.scheduler [--running 256] [--waiting 10,100,1000,10000] [--steps 300]
    [--requests 1000000] [--seed 1] [--no-save]

Costs: of planning and committing an iteration, in which all running requests gain 3 tokens and as
one ends the next is admitted, by requests waiting; and of one decision, who of those that wait
(of up to 100 clients) is next. Policy: as many requests as are asked for, of the clients of
`simulations.scheduler_traffic`, against the real scheduler with a clock and an executor of its own;
about half a millisecond each. Closed loops: clients that always ask, by how many they are and by
`--max-step-ms`, on a device that takes what an 8B model takes on one H200
(`simulations.closed_loop`). Exits with 1 where a request waits longer than its share says. Checks
the scheduler's integrity. Prints three tables, then one JSON line.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from itertools import count, product
from typing import Any

import numpy as np

from benchmarks.common import argument_parser, emit
from benchmarks.simulations.closed_loop import ClosedLoop, Loop
from benchmarks.simulations.scheduler import SchedulerSimulation
from specguide.batch import Batch
from specguide.cache import PageAllocator
from specguide.params import SamplingParams
from specguide.request import Request, RequestSpec
from specguide.scheduler import Scheduler, SchedulerLimits
from specguide.scheduler.fairness import ClientShares
from specguide.scheduler.sequence import SequenceState
from specguide.scheduler.waiting import WaitingQueue

PROMPT_LEN, MAX_TOKENS, PAGE_SIZE, K, NUM_GAINED = 500, 400, 16, 3, 3


def endless_requests() -> Iterator[Request]:
    """Each of its own tokens."""
    params = SamplingParams(max_tokens=MAX_TOKENS, ignore_eos=True)
    return (
        Request(RequestSpec(number, (number,) * PROMPT_LEN, params, arrival_s=number))
        for number in count()
    )


def measure(num_running: int, num_waiting: int, num_steps: int) -> dict[str, float]:
    """One row: microseconds of `schedule` and `commit` in decode iterations."""
    pages_each = -(-(PROMPT_LEN + MAX_TOKENS + 2 * K + 1) // PAGE_SIZE)
    pages = PageAllocator(num_running * pages_each)
    limits = SchedulerLimits(num_running, 4096, 8192, K, K, PAGE_SIZE)
    scheduler = Scheduler(limits, pages, [0], slot_is_idle=lambda slot: True)
    requests = endless_requests()
    schedule_us, commit_us = list[float](), list[float]()
    while len(schedule_us) < num_steps:
        while scheduler.num_unfinished < num_running + num_waiting:
            scheduler.add(next(requests))
        start = time.perf_counter()
        batch = scheduler.schedule().batch
        planned = time.perf_counter()
        assert batch is not None
        scheduler.commit(batch, gained(batch), {})
        end = time.perf_counter()
        if not batch.is_prefill and len(batch.slots) > 0.9 * num_running:
            schedule_us.append(1e6 * (planned - start))
            commit_us.append(1e6 * (end - planned))
    scheduler.check_integrity()
    total = np.array(schedule_us) + np.array(commit_us)
    return {
        "running": num_running,
        "waiting": num_waiting,
        "schedule_us": round(float(np.median(schedule_us)), 1),
        "commit_us": round(float(np.median(commit_us)), 1),
        "median_us": round(float(np.median(total)), 1),
        "p99_us": round(float(np.percentile(total, 99)), 1),
    }


def gained(batch: Batch) -> list[list[int]]:
    if batch.is_prefill:
        return [[7] if chunk.next_id is None else [] for chunk in batch.chunks]
    return [[7] * NUM_GAINED] * len(batch.slots)


def decision_us(num_waiting: int, num_decisions: int = 2000) -> float:
    """Median microseconds of finding and taking who is next; another one comes for each."""
    shares = ClientShares()
    queue = WaitingQueue(shares, num_cached=lambda sequence: 0)
    params = SamplingParams(max_tokens=MAX_TOKENS)
    times_us = []
    for number in range(num_waiting + num_decisions):
        spec = RequestSpec(number, (number,) * PROMPT_LEN, params, client=str(number % 100))
        sequence = SequenceState(Request(spec), PROMPT_LEN + MAX_TOKENS)
        shares.open(sequence)
        queue.push(sequence)
        if number >= num_waiting:
            start = time.perf_counter()
            queue.pop()
            times_us.append(1e6 * (time.perf_counter() - start))
    return round(float(np.median(times_us)), 2)


def costs(num_running: int, waiting: list[int], num_steps: int) -> list[dict[str, float]]:
    """A row for each number of requests that wait."""
    rows = []
    names = "schedule_us", "commit_us", "median_us", "p99_us", "decision_us"
    print(f"{'running':>8} {'waiting':>8} " + " ".join(f"{name:>12}" for name in names))
    for num_waiting in waiting:
        row = measure(num_running, num_waiting, num_steps)
        row["decision_us"] = decision_us(num_waiting)
        told = " ".join(f"{row[name]:>12.1f}" for name in names)
        print(f"{num_running:>8} {num_waiting:>8} {told}", flush=True)
        rows.append(row)
    return rows


def policy(num_requests: int, seed: int) -> dict[str, Any]:
    """Figures of a simulation, which are printed."""
    simulation = SchedulerSimulation(seed)
    simulation.run(num_requests)
    simulation.scheduler.check_integrity()
    figures = simulation.figures()
    for name, value in figures.items():
        print(f"{name:>24}  {value}", flush=True)
    return figures


def loops() -> list[dict[str, Any]]:
    """Figures of closed loops of four requests a client, which are printed as a table.

    An iteration is bound by a time, and by `slowdown` times as long as without prompts where that
    is more: 25 ms and 3.5 are what a GPU has where nothing is given."""
    rows = []
    bounds = (25, 3.5), (25, 0.0), (35, 0.0), (1000, 0.0)
    for num_clients, (max_step_ms, slowdown) in product((16, 64, 128, 256), bounds):
        loop = Loop(num_clients, 1e-3 * max_step_ms, slowdown, rounds=4)
        bound = {"clients": num_clients, "max_step_ms": max_step_ms, "slowdown": slowdown}
        rows.append(bound | ClosedLoop(loop).run())
        if len(rows) == 1:
            print(" ".join(f"{name:>12}" for name in rows[0]))
        print(" ".join(f"{value:>12,}" for value in rows[-1].values()), flush=True)
    return rows


def main() -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("--running", type=int, default=256)
    parser.add_argument("--waiting", default="10,100,1000,10000")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    rows = costs(args.running, [int(number) for number in args.waiting.split(",")], args.steps)
    figures = policy(args.requests, args.seed)
    result = {"costs": rows, "policy": figures, "loops": loops()}
    emit("scheduler", vars(args), result, {"starved": 0}, save=not args.no_save)
    sys.exit(figures["starved"] > 0)


if __name__ == "__main__":
    main()
