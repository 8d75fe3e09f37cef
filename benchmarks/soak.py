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
import sys
from collections.abc import Sequence
from typing import Any

import torch

from benchmarks.common import argument_parser, emit
from benchmarks.soaks.jobs import Job, jobs
from benchmarks.soaks.memory import MEMORY_TOLERANCE
from benchmarks.soaks.phase import DEADLINE_US, STALL_EVERY, STALL_S, Phase, Soak
from specguide.engine.setup.target_folder import SHIPPED_MODEL
from specguide.tokenizer import Tokenizer


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
    parser = argument_parser(__doc__)
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
    parser.add_argument(
        "--shares-gpu",
        action="store_true",
        help="other processes use the GPU: that more of its memory is taken is no fault",
    )
    parser.add_argument("--no-save", action="store_true", help="print only")
    return parser.parse_args()


def main() -> None:
    """Run the phases; exits with 1 where something was wrong."""
    args = _arguments()
    pool = jobs(Tokenizer.from_folder(SHIPPED_MODEL / "target"), args.samples, seed=31)
    rows = run_phases(args, pool)
    faults = [
        f"{row['phase']}: {fault}"
        for row in rows
        for fault in row["faults"]
        if not (args.shares_gpu and fault.startswith("device memory grew"))
    ]
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
