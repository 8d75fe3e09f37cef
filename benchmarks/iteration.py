"""What an iteration costs at Llama-3.1-8B shapes: guided against unguided, one mode of the engine
against another.

    SPECGUIDE_DATA=… python -m benchmarks.iteration [--batches 1,4,16,64,128] [--modes …]
    [--iterations 200] [--rounds 3] [--model llama-8b] [--tensor-parallel-size 1]

Random bf16 weights, an EAGLE-3 head with a draft vocabulary of 32,000, or an MTP head or a 1B model
as drafter, the vocabulary of 128,256 tokens, K = 3, and contexts that grow from 60 to some 630
tokens, 350 in the mean. In all modes the requests write the same text, valid instances of eight
real-world schemas from different places on, and the drafter guesses the same part of it, to which
forced and looked-up drafts may add. Its wrong guesses are any tokens that the grammar allows.
Before anything is timed, each output is compared with its text and walked through a fresh matcher,
which must take every token. Times are between the ends of successive iterations on the forward
stream. Prints a table, then one JSON line.

A grammar's rows are remembered for later requests. So a guided mode is timed in rounds: in each new
requests with other prompts, and so with other wrong guesses, write the same texts. A row of the
table is the last round, as in a service that has had such requests before; the lines below it and
`rounds` have the others, the first of them as with grammars that nobody has used.

With `--model qwen3-30b-a3b`, the same at the shapes of a model of experts: beside another, "plain
unguided" and "unguided" say what speculation gains where each token that is verified may need
experts of its own. `expert_share` is the part of a layer's experts that so many tokens of a text
use; the floor counts that part. It is kept as iteration_qwen3-30b-a3b.json.

With `--tensor-parallel-size N`, the same on N ranks: a process and a GPU each, random weights of a
rank's own share. Floor, clock and times are those of rank 0.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.common import argument_parser, emit
from benchmarks.gpu.clock import GpuClock
from benchmarks.gpu.timing import ON_A_CPU, copy_bandwidth, require_gpus
from benchmarks.iterations.figures import (
    OF_ROUNDS,
    add_ratios,
    grammar_work,
    print_row,
    times_of,
)
from benchmarks.iterations.modes import K, Mode, modes_named
from benchmarks.iterations.run import MAX_LEN, PROMPT_LEN, Run
from benchmarks.iterations.workload import NUM_WARM_UP, SCHEMAS, Workload, real_workload
from benchmarks.models.by_name import MODELS
from benchmarks.models.expert_use import expert_share
from benchmarks.models.llama_8b import RandomModels, RandomParts
from specguide.config import GuideConfig
from specguide.parallel import ONE_RANK, Ranks
from specguide.trace import write_chrome_trace


@dataclass(frozen=True)
class Setting:
    """What all rows of one call of the benchmark have in common.

    models:    by the format of the weights, as `Mode.format` has it; of several ranks what rank 0
               has, without memory
    parts:     likewise, what makes those of several ranks; empty: there is one
    num_rounds: of requests that write the same texts
    bandwidth: bytes a second that the device copies
    trace:     folder of the timelines
    """

    models: Mapping[str | None, RandomModels]
    parts: Mapping[str | None, RandomParts]
    workload: Workload
    num_iterations: int
    num_rounds: int
    bandwidth: float
    is_profiled: bool = False
    trace: str | None = None


def measure(mode: Mode, batch_size: int, setting: Setting) -> dict[str, Any]:
    """One row: builds the case, warms it up, checks its outputs, times it, checks again."""
    case = Run(
        mode,
        setting.models[mode.format],
        batch_size,
        setting.workload,
        is_traced=setting.trace is not None,
        parts=setting.parts.get(mode.format),
    )
    rounds = []
    for number in range(setting.num_rounds if mode.has_grammar else 1):
        if number:
            case.restart()
        rounds.append(timed(case, setting))
    row = {"mode": mode.name, "batch_size": batch_size, **rounds[-1]}
    if len(rounds) > 1:
        row["rounds"] = [{name: one[name] for name in OF_ROUNDS if name in one} for one in rounds]
    if setting.trace is not None:
        path = Path(setting.trace, f"{mode.name} of {batch_size}.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_chrome_trace(path, case.runner.grammar.recorder.spans())
    if setting.is_profiled:
        print_kernels(case)
    case.close()
    return row


def timed(case: Run, setting: Setting) -> dict[str, Any]:
    """The figures of one round of requests."""
    case.run(NUM_WARM_UP)
    case.check()
    num_before = case.num_tokens
    counters = case.runner.grammar.counters()
    with GpuClock() as clock:  # an idle GPU lowers its clocks, so what is timed is warmed up, too
        times = np.array(case.run(NUM_WARM_UP + setting.num_iterations))[NUM_WARM_UP:]
    case.check()
    num_timed = NUM_WARM_UP + setting.num_iterations + 1
    mode = case.mode
    batch_size = len(case.requests)
    text = [*case.requests[0].prompt_ids, *case.texts[0]]
    num_verified = batch_size * (1 + mode.layout.num_drafts)
    share = expert_share(setting.models[mode.format].target, text[:MAX_LEN], num_verified)
    accepted = round(case.acceptance_length(num_before, num_timed), 3)
    return {
        **times_of(times),
        "floor_ms": round(1e3 * floor_s(mode, case, num_before, setting, share), 3),
        "expert_share": round(share, 4),
        "acceptance_length": accepted,
        "tokens_per_s": round(1e3 * batch_size * accepted / float(np.median(times))),
        **grammar_work(counters, case.runner.grammar.counters(), num_timed, mode.layout.stages[-2]),
        **clock.summary(),
    }


def floor_s(mode: Mode, case: Run, num_before: int, setting: Setting, share: float) -> float:
    """Seconds to read what an iteration must read once, in the mean over those timed.

    share: of the target's experts, those in use
    """
    num_cached = len(case.requests) * PROMPT_LEN + (num_before + case.num_tokens) / 2
    method = mode.spec.method if mode.spec else ""
    models = setting.models[mode.format]
    num_bytes = models.num_bytes_read(method, mode.layout.num_model, share)
    cache_bytes = models.num_cache_bytes_read(method, mode.layout.num_model, num_cached)
    if mode.cache == "fp8":
        cache_bytes /= models.target.dtype.itemsize
    return (num_bytes + cache_bytes) / setting.bandwidth


def print_kernels(case: Run, num_iterations: int = 4) -> None:
    """What the GPU spends an iteration on, in microseconds."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        case.run(num_iterations - 1)
        torch.cuda.synchronize()
    kernels = sorted(profile.key_averages(), key=lambda kernel: -kernel.self_device_time_total)
    print(
        f"{sum(kernel.self_device_time_total for kernel in kernels) / num_iterations:10.1f} µs in "
        f"{sum(kernel.count for kernel in kernels) / num_iterations:.0f} kernels"
    )
    for kernel in kernels[:24]:
        print(
            f"{kernel.self_device_time_total / num_iterations:10.1f} µs "
            f"{kernel.count / num_iterations:6.1f} × "
            f"{kernel.key[:100]}"
        )


def arguments() -> argparse.Namespace:
    parser = argument_parser(__doc__)
    parser.add_argument("--batches", default="1,4,16,64,128")
    parser.add_argument(
        "--modes",
        default="grammarless,unguided,guided,20 % guided",
        help="comma-separated, or all",
    )
    parser.add_argument("--model", choices=MODELS, default="llama-8b", help="whose shapes")
    parser.add_argument("--tensor-parallel-size", type=int, default=1, help="number of ranks")
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3, help="of requests; timed each by itself")
    parser.add_argument("--acceptance", type=float, default=2.86)
    parser.add_argument("--schemas", type=int, default=len(SCHEMAS), help="use the first so many")
    parser.add_argument(
        "--threads", type=int, help="of the grammar executor; by default from the machine"
    )
    parser.add_argument("--draft-wait-us", type=int, help="as in GuideConfig")
    parser.add_argument("--target-wait-us", type=int, help="as in GuideConfig")
    parser.add_argument(
        "--profile", action="store_true", help="print each mode's kernels (on a GPU)"
    )
    parser.add_argument(
        "--trace", help="write each mode's timeline into this folder; nothing is saved then"
    )
    parser.add_argument(
        "--tiny", action="store_true", help="a tiny model, to try the benchmark itself"
    )
    parser.add_argument("--no-save", action="store_true")
    return parser.parse_args()


def setting_of(args: argparse.Namespace, chosen: Sequence[Mode]) -> Setting:
    """Models, texts and grammars for those modes, on the GPU where there is one."""
    has_gpu = torch.cuda.is_available()
    device = torch.device("cuda" if has_gpu else "cpu")
    dtype = torch.bfloat16 if has_gpu else torch.float32
    guide = GuideConfig(
        num_threads=args.threads,
        draft_wait_us=args.draft_wait_us,
        target_wait_us=args.target_wait_us,
    )
    methods = [mode.spec.method for mode in chosen if mode.spec and mode.layout.num_model]
    shapes = MODELS[args.model][args.tiny]
    num_ranks = args.tensor_parallel_size
    parts = {
        form: RandomParts(tuple(methods), MAX_LEN, shapes.held_in(form))
        for form in dict.fromkeys(mode.format for mode in chosen)
    }
    place = (device, dtype, ONE_RANK)
    if num_ranks > 1:
        place = (torch.device("meta"), dtype, Ranks(0, num_ranks))
    models = {form: each.on(*place) for form, each in parts.items()}
    workload = real_workload(
        SCHEMAS[: args.schemas],
        args.acceptance,
        args.iterations,
        guide,
        max(mode.layout.num_lookup for mode in chosen),
    )
    return Setting(
        models,
        parts if num_ranks > 1 else {},
        workload,
        args.iterations,
        args.rounds,
        copy_bandwidth() if has_gpu else float("inf"),
        is_profiled=args.profile and has_gpu,
        trace=args.trace,
    )


def measured(
    chosen: Sequence[Mode], batch_sizes: Sequence[int], setting: Setting
) -> list[dict[str, Any]]:
    """Prints the table row by row."""
    print(
        f"{'batch':>5}  {'mode':<20} {'median':>8} {'p99':>8} {'÷ near':>7} {'floor':>8} "
        f"{'accept':>7} {'tokens/s':>9} {'callbacks':>10} {'workers':>9} {'held':>5} "
        f"{'late':>6} {'guessed':>7} {'clock':>9}"
    )
    rows = []
    for batch_size in batch_sizes:
        of_batch = []
        for mode in chosen:
            if not 0 < mode.guided_share * batch_size < 1:
                of_batch.append(measure(mode, batch_size, setting))
                print_row(of_batch[-1])
        add_ratios(of_batch)
        rows += of_batch
    return rows


def main() -> None:
    """Run the benchmark."""
    args = arguments()
    chosen = modes_named(args.modes)
    if not args.tiny:
        require_gpus(args.tensor_parallel_size, instead=ON_A_CPU)
    setting = setting_of(args, chosen)
    rows = measured(chosen, [int(size) for size in args.batches.split(",")], setting)
    name = "iteration" if args.model == "llama-8b" else f"iteration_{args.model}"
    if args.tensor_parallel_size > 1:
        name += f"_tp{args.tensor_parallel_size}"
    has_ceiling = setting.bandwidth < float("inf")
    emit(
        name,
        {**vars(args), "prompt_len": PROMPT_LEN, "num_draft_tokens": K, "torch": torch.__version__},
        rows,
        {"copy_gb_per_s": round(setting.bandwidth / 1e9, 1)} if has_ceiling else None,
        save=not (args.no_save or args.tiny or args.trace),
    )


if __name__ == "__main__":
    main()
