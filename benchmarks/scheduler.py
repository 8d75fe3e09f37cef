"""What planning and committing an iteration takes on the host, by requests running and waiting.

    python -m benchmarks.scheduler [--running 256] [--waiting 0,1000,10000] [--steps 300]
    [--no-save]

Every step decodes all running requests, each gaining 3 tokens; as one ends the next is admitted and
prefilled between. Checks the scheduler's integrity before and after. Prints a table, then one JSON
line.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from itertools import count

import numpy as np

from benchmarks.common import emit
from specguide.batch import Batch
from specguide.cache import PageAllocator
from specguide.params import SamplingParams
from specguide.request import Request, RequestSpec
from specguide.scheduler import Scheduler, SchedulerLimits

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
    requests, schedule_us, commit_us = endless_requests(), [], []
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


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--running", type=int, default=256)
    parser.add_argument("--waiting", default="0,1000,10000")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    rows = []
    print(f"{'running':>8} {'waiting':>8} {'schedule':>12} {'commit':>12} {'both':>12} {'p99':>12}")
    for num_waiting in map(int, args.waiting.split(",")):
        row = measure(args.running, num_waiting, args.steps)
        print(
            f"{row['running']:>8} {row['waiting']:>8} {row['schedule_us']:>9.0f} µs "
            f"{row['commit_us']:>9.0f} µs "
            f"{row['median_us']:>9.0f} µs {row['p99_us']:>9.0f} µs",
            flush=True,
        )
        rows.append(row)
    emit("scheduler", vars(args), rows, save=not args.no_save)


if __name__ == "__main__":
    main()
