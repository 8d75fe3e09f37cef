"""Guided requests without end, beside threads that hold the GIL and launch other CUDA work.

    python -m benchmarks.soak [--iterations 20000] [--seconds 200] [--spinners 4] [--batch 64]

Four phases with the shipped model, each with an engine of its own whose slots are filled up when a
quarter is free:

    spinners     beside Python threads that never let go of the GIL of their own accord, and a
                 thread with work on a CUDA stream of its own
    no spinners  the rest of the iterations, if any, at least a tenth of them, beside the CUDA
                 thread alone
    reference    float32, one request's matcher goes through Python
    stall        the same, and that matcher sleeps 20 ms in every 50th fill, ten times the deadline

A host loop that competes with four spinners gets a fifth of the GIL, and each call of torch has to
ask for it, so its own work takes many times as long; that is the first phase's figure, and nothing
of it is the grammar's, whose callbacks take no GIL. Spinners rest while outputs are checked.

It exits with 1 when an output leaves its grammar or fails validation, a request is lost, memory
grows, the executor's counters do not add up, or a stall is felt by the others; and when an
iteration takes longer than --hang-seconds, with all threads' stacks. Prints one JSON line.
"""

from __future__ import annotations

import argparse
import faulthandler
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import torch

from benchmarks.common import emit
from benchmarks.soaks.load import Job, StallingGrammar, jobs, launching, params_of, requests
from benchmarks.soaks.spinners import Spinners
from benchmarks.soaks.watch import (
    MEMORY_TOLERANCE,
    Ledger,
    Memory,
    WatchedEngine,
    counter_faults,
    distribution,
    in_mb,
    memory_faults,
    slowest,
)
from specguide.config import CacheConfig, EngineConfig, GuideConfig, SpecConfig
from specguide.engine.setup.target_folder import SHIPPED_MODEL
from specguide.request import Request
from specguide.tokenizer import Tokenizer

STALL_S, STALL_EVERY, DEADLINE_US = 0.02, 50, 2000
CHECK_EVERY = 256
CACHE = CacheConfig(kv_cache_memory_bytes=4 << 30)  # others may use the device, too
SWITCH_INTERVAL_S = 2e-5  # at the usual 5 ms each call of torch would wait for up to 20
WARM_UP_S = 300  # in which all kernels may have to be compiled
MEMORY_AT = (0.1, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Phase:
    """What an engine is put through.

    num_iterations, seconds: whichever is reached first ends it
    stalls:                  None: all matchers are native; else one request's goes through Python,
                             and True: sleeps
    """

    name: str
    num_iterations: int
    seconds: float
    num_spinners: int = 0
    stalls: bool | None = None

    def config(self, batch: int) -> EngineConfig:
        """The configuration of its engine."""
        config = EngineConfig(spec=SpecConfig(), max_batch_size=batch, cache=CACHE)
        if self.stalls is None:
            return config
        return replace(config, dtype="float32", guide=GuideConfig(deadline_us=DEADLINE_US))


class Soak:
    """The run of one phase."""

    def __init__(self, phase: Phase, pool: Sequence[Job], batch: int, hang_s: float) -> None:
        self.phase, self.batch, self._pool = phase, batch, pool
        self._hang_s = hang_s
        self._alive_s = 0.0
        self.engine = WatchedEngine(
            phase.config(batch),
            lambda grammar: StallingGrammar(grammar, STALL_S if phase.stalls else 0.0, STALL_EVERY),
        )
        self.ledger = Ledger(self.engine.tokenizer, self.engine.grammar_of)
        self.memory = dict[float, Memory]()
        num_slow = 0 if phase.stalls is None else len(pool) // 8
        self._slow, self._others = self._slow_jobs(pool[:num_slow]), requests(pool[num_slow:])
        self._slow_request: Request | None = None
        self.slow_held = 0
        self.slow_numbers = {job.number for job in pool[:num_slow]}

    def run(self) -> dict[str, Any]:
        """Full slots until the phase is over, then to the end of all requests. Its row."""
        faulthandler.dump_traceback_later(WARM_UP_S, exit=True)
        self.engine.warm_up()
        self.engine.compile(job.schema for job in self._pool)
        self._sign_of_life()
        with ExitStack() as beside:
            beside.enter_context(launching(torch.cuda.is_available() and self.phase.stalls is None))
            spinners = beside.enter_context(Spinners(self.phase.num_spinners, SWITCH_INTERVAL_S))
            begin = time.perf_counter()
            self._serve(begin, spinners)
            seconds = time.perf_counter() - begin
        iterations = list(self.engine.iterations)
        num_decodes = self.engine.num_decodes
        while self.engine.num_unfinished:
            self._step()
        self.ledger.close()
        decodes = [iteration for iteration in iterations if not iteration.prefills]
        grammar = self.engine.stats().grammar
        row = {
            "phase": self.phase.name,
            "seconds": round(seconds, 1),
            "decode_iterations": num_decodes,
            "spinners": self.phase.num_spinners,
            "of_requests": dict(self.ledger.totals),
            "held_slots": grammar["held"],
            "held_slots_of_slow_request": self.slow_held,
            "late_draft_rows": grammar["late_draft_rows"],
            "ms": distribution(iterations),
            "ms_without_prefill": distribution(decodes),
            "slowest": slowest(iterations),
            "memory_mb": {f"{share:.0%}": in_mb(memory) for share, memory in self.memory.items()},
            "faults": [
                *self.ledger.faults,
                *memory_faults(self.memory[0.5], self.memory[1.0]),
                *counter_faults(self.engine, self.ledger.totals),
            ],
        }
        self.engine.check_integrity()
        self.engine.close()
        faulthandler.cancel_dump_traceback_later()
        return row

    def _serve(self, begin: float, spinners: Spinners) -> None:
        marks = list(MEMORY_AT)
        num_steps = 0
        while marks:
            share = max(
                self.engine.num_decodes / self.phase.num_iterations,
                (time.perf_counter() - begin) / self.phase.seconds,
            )
            if num_steps % CHECK_EVERY == 0 or share >= marks[0]:
                with spinners.resting():
                    self.ledger.check()
                while marks and share >= marks[0]:
                    self.memory[marks.pop(0)] = Memory.now()
                self.engine.pause()
            if marks and self.engine.num_unfinished <= 3 * self.batch // 4:
                for _ in range(self.batch - self.engine.num_unfinished):
                    self._add()
            self._step()
            num_steps += 1

    def _step(self) -> None:
        for request in self.engine.step():
            self.ledger.take(request)
            if request is self._slow_request:
                self.slow_held += request.metrics.num_held
        self._sign_of_life()

    def _add(self) -> None:
        is_slow = self.phase.stalls is not None and not self.ledger.is_under_way(self._slow_request)
        job, params = next(self._slow if is_slow else self._others)
        request = self.engine.add(job.prompt_ids, params)
        self.ledger.add(request, job)
        if is_slow:
            self._slow_request = request
            self.engine.wrapped = request

    def _slow_jobs(self, pool: Sequence[Job]) -> Iterator[tuple[Job, Any]]:
        while True:
            for job in pool:
                yield job, params_of(job)

    def _sign_of_life(self) -> None:
        """The watchdog is a thread of C, which needs no GIL."""
        if time.perf_counter() - self._alive_s > 1:
            faulthandler.dump_traceback_later(self._hang_s, exit=True)
            self._alive_s = time.perf_counter()


def stall_faults(reference: Soak, stall: Soak, rows: Sequence[dict[str, Any]]) -> list[str]:
    """What the others felt of the stalling request, and what it did to its own output."""
    ours, theirs = reference.ledger.outputs, stall.ledger.outputs
    compared = [number for number in reference.slow_numbers if number in ours and number in theirs]
    faults = [
        f"job {number} has another output where its matcher stalls"
        for number in compared
        if ours[number] != theirs[number]
    ]
    faults += [] if compared else ["no output of a stalling request was compared"]
    faults += [] if stall.slow_held else ["the stalling request was never held"]
    if torch.cuda.is_available():  # where others share the cores, times say nothing
        (median, p99), (its_median, its_p99) = (
            (row["ms_without_prefill"][name] for name in ("median", "p99")) for row in rows
        )
        if its_median > 1.1 * median:
            faults.append(f"the stall takes the median iteration from {median} to {its_median} ms")
        if its_p99 > 1.2 * p99 + DEADLINE_US / 1e3:
            faults.append(
                f"the stall takes the p99 iteration from {p99} to {its_p99} ms, more than by the "
                "deadline"
            )
    return faults


def print_row(row: dict[str, Any]) -> None:
    """Prints the row of a phase."""
    for name in ("ms", "ms_without_prefill"):
        print(
            f"{row['phase']:<13}{name:<20}"
            + "".join(f"{key} {value:<11}" for key, value in row[name].items())
        )
    first, last = (row["memory_mb"][share] for share in ("50%", "100%"))
    grown = ", ".join(f"{name} {first[name]:.1f} → {last[name]:.1f}" for name in first)
    print(
        f"{'':<13}{row['decode_iterations']} decode iterations, {row['of_requests']['requests']} "
        f"requests, {row['held_slots']} held slots; MB: {grown}",
        flush=True,
    )


def run_phases(args: argparse.Namespace, pool: Sequence[Job]) -> list[dict[str, Any]]:
    """Runs the phases; one row for each."""
    rows: list[dict[str, Any]] = []

    def run(phase: Phase) -> Soak:
        soak = Soak(phase, pool, args.batch, args.hang_seconds)
        rows.append(soak.run())
        print_row(rows[-1])
        return soak

    if args.spinners:
        run(Phase("spinners", args.iterations, 0.65 * args.seconds, num_spinners=args.spinners))
    done = sum(row["decode_iterations"] for row in rows)
    run(
        Phase(
            "no spinners", max(args.iterations - done, args.iterations // 10), 0.15 * args.seconds
        )
    )
    reference, stall = (
        run(Phase(name, max(300, args.iterations // 16), 0.1 * args.seconds, stalls=stalls))
        for name, stalls in (("reference", False), ("stall", True))
    )
    rows[-1]["faults"] += stall_faults(reference, stall, rows[-2:])
    return rows


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--iterations", type=int, default=20_000, help="decode iterations of the first two phases"
    )
    parser.add_argument(
        "--seconds", type=float, default=200, help="of serving, in all phases together"
    )
    parser.add_argument(
        "--spinners", type=int, default=4, help="threads that hold the GIL; 0 leaves that phase out"
    )
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument(
        "--samples", type=int, default=24, help="tasks of each group, from which requests are made"
    )
    parser.add_argument(
        "--hang-seconds",
        type=float,
        default=120,
        help="longest iteration before the run is given up",
    )
    parser.add_argument("--no-save", action="store_true", help="print only")
    return parser.parse_args()


def main() -> None:
    """Run the phases; exits with 1 where something was wrong."""
    args = _arguments()
    pool = jobs(Tokenizer.from_folder(SHIPPED_MODEL / "target"), args.samples, seed=31)
    rows = run_phases(args, pool)
    faults = [f"{row['phase']}: {fault}" for row in rows for fault in row["faults"]]
    for fault in faults:
        print(fault, file=sys.stderr)
    undisturbed = next(row for row in rows if row["phase"] == "no spinners")
    emit(
        "soak",
        {
            **vars(args),
            "jobs": len(pool),
            "stall_s": STALL_S,
            "stall_every": STALL_EVERY,
            "stall_deadline_us": DEADLINE_US,
            "memory_tolerance_bytes": MEMORY_TOLERANCE,
        },
        rows,
        {"decode_median_ms_without_spinners": undisturbed["ms_without_prefill"].get("median")},
        save=not args.no_save,
    )
    raise SystemExit(1 if faults else 0)


if __name__ == "__main__":
    main()
