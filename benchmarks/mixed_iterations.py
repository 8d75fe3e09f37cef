"""What takes the time of mixed iterations, in which prompts are computed beside decoding.

    python -m benchmarks.mixed_iterations [--decoding 60,124] [--prompts 0,64,192,320,448,512,1024]
    [--rows 64,128,…] [--clients 16,64,128] [--rounds 3] [--profile 0,192,448]
    [--spec eagle3] [--model llama-8b]

Random bfloat16 weights. Products: all of Llama's layers, captured, by rows. Iterations of chosen
sizes: contexts of 512 to 576 tokens, and chunks of up to 511 prompt tokens beside, with the time in
each family of kernels (`--profile`: prompt tokens at which). Closed loops on an engine in this
process: 512 prompt tokens, 128 out; what the iterations were, what they took, and how long the GPU
waited between them. Clock and power stand beside the times: a GPU at its power limit is slower.

Checks first: requests beside which prompts are computed are given the tokens that they are given
alone, but for ties of bfloat16 (at least 7 in 10 first tokens); in the loops every request has all
its tokens. Exits with 1 otherwise. Prints tables, then one JSON line.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np
import torch

from benchmarks.common import argument_parser, emit
from benchmarks.gpu.clock import GpuClock
from benchmarks.gpu.kernel_families import longest, profiled, shares
from benchmarks.gpu.timing import ON_A_CPU, mark_of, ms_between, require_gpus
from benchmarks.iterations.mixed_case import MAX_LEN, NUM_SPARE, MixedCase, Size
from benchmarks.iterations.mixed_loop import NotedEngine, loop_figures, run_loop
from benchmarks.models.by_name import MODELS
from benchmarks.models.llama_8b import RandomModels
from specguide.config import SpecConfig
from specguide.piggyback import num_graph_slots

PROMPT_LEN, OUTPUT_LEN = 512, 128
NUM_WARM_UP, NUM_TIMED, NUM_PROFILED = 8, 32, 4
LEAST_SAME = 0.7
"""Minimum share of first tokens that must be the same beside prompts and alone."""


def product_times(models: RandomModels, all_rows: Sequence[int]) -> list[dict[str, float]]:
    """Milliseconds of all layers' products by rows, one replay behind the other; printed."""
    result = []
    for num_rows in all_rows:
        graph = _captured_products(models, num_rows)
        with GpuClock() as clock:
            marks = [mark_of(torch.cuda.current_stream())]
            for _ in range(16):
                graph.replay()
                marks.append(mark_of(torch.cuda.current_stream()))
            torch.cuda.synchronize()
        ms = float(np.median([ms_between(*pair) for pair in pairwise(marks[4:])]))
        row = {"rows": num_rows, "ms": round(ms, 3), "us_a_row": round(1e3 * ms / num_rows, 1)}
        result.append(row | clock.summary())
        print("products", *result[-1].values(), flush=True)
    return result


def _captured_products(models: RandomModels, num_rows: int) -> torch.cuda.CUDAGraph:
    """The products as the engine does them, captured; each layer overwrites the memory of the
    last."""
    config, target = models.target.config, models.target
    layers: Any = target.layers
    normed, attended, inner = (
        torch.randn(num_rows, size, device=target.device, dtype=target.dtype)
        for size in (
            config.hidden_size,
            config.num_heads * config.head_dim,
            config.intermediate_size,
        )
    )

    def run() -> None:
        for layer in layers:
            layer.attention.qkv.forward(normed)
            layer.attention.out.forward_parts(attended)
            layer.feed_forward.gate_up.weights.product(normed)
            layer.feed_forward.down.forward_parts(inner)

    run()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph


def measure(case: MixedCase, size: Size) -> dict[str, Any]:
    """One row: checks an iteration of this size, and times more of them."""
    case.run(size, NUM_WARM_UP)
    tokens = case.run(size, NUM_WARM_UP)[1][0][:, 0]
    alone = case.run(Size(size.num_decoding, 0), NUM_WARM_UP)[1][0][:, 0]
    same = float((tokens == alone).float().mean())
    with GpuClock() as clock:
        times = np.array(case.run(size, NUM_WARM_UP + NUM_TIMED)[0][NUM_WARM_UP:])
    slots = case.limits.num_slots(size.num_decoding - 1)
    if not size.num_prompt:
        slots = num_graph_slots(size.num_decoding - 1, case.num_slots)
    beside = case.limits.beside(size.num_decoding - 1)
    filled = beside.size_for(size.num_prompt) if size.num_prompt else 0
    return {
        "decoding": size.num_decoding,
        "prompt_tokens": size.num_prompt,
        "rows": slots * case.limits.nodes_each + filled,
        "median_ms": round(float(np.median(times)), 3),
        "p99_ms": round(float(np.percentile(times, 99)), 3),
        "same": round(same, 3),
        **clock.summary(),
    }


def families(case: MixedCase, size: Size, num_kernels: int) -> dict[str, float]:
    """Microseconds an iteration by family; the longest kernels are printed."""
    events = profiled(lambda: case.run(size, NUM_PROFILED))
    graph_slots = case.limits.num_slots(size.num_decoding - 1)
    spent = {name: us / NUM_PROFILED for name, us in shares(events, graph_slots).items()}
    for name, us, num in longest(events, num_kernels):
        print(f"  {us / NUM_PROFILED:10.1f} µs {num / NUM_PROFILED:7.1f} × {name[:90]}")
    ordered = sorted(spent.items(), key=lambda item: -item[1])
    print("  " + ", ".join(f"{name} {us:.0f}" for name, us in ordered), flush=True)
    return {name: round(us, 1) for name, us in ordered}


def sizes_measured(args: argparse.Namespace, case: MixedCase) -> list[dict[str, Any]]:
    """Rows of chosen sizes, printed."""
    result = []
    for num_decoding in args.decoding:
        for num_prompt in args.prompts:
            size = Size(num_decoding, num_prompt)
            row = measure(case, size)
            print(*row.items(), flush=True)
            if num_prompt in args.profile and torch.cuda.is_available():
                row["us"] = families(case, size, args.kernels)
            result.append(row)
    return result


def loops(args: argparse.Namespace, case: MixedCase) -> list[dict[str, Any]]:
    """Figures of closed loops, printed; exits where a request lacks tokens."""
    result = []
    for num_clients in args.clients:
        with GpuClock() as clock:
            figures = _loop(case, num_clients, args.rounds)
        result.append(figures | clock.summary())
        print(*result[-1].items(), sep="\n  ", flush=True)
    return result


def _loop(case: MixedCase, num_clients: int, rounds: int) -> dict[str, Any]:
    """On an engine of its own over the case's executor: it finds no prompt of another."""
    engine, began_s = NotedEngine(case.config, case.executor), perf_counter()
    requests = run_loop(engine, num_clients, rounds, (PROMPT_LEN, OUTPUT_LEN))
    seconds = perf_counter() - began_s
    engine.check_integrity()
    engine.close()
    if any(len(each.output_ids) != OUTPUT_LEN or each.error for each in requests):
        sys.exit("a request lacks tokens")
    return loop_figures(engine.noted, num_clients, seconds, OUTPUT_LEN * len(requests))


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",") if number]


def arguments() -> argparse.Namespace:
    parser = argument_parser(__doc__)
    rows = ",".join(map(str, (*range(64, 1025, 64), *range(1152, 2049, 128))))
    parser.add_argument("--rows", type=_numbers, default=_numbers(rows))
    parser.add_argument("--decoding", type=_numbers, default=[60, 124])
    parser.add_argument("--prompts", type=_numbers, default=[0, 64, 192, 320, 448, 512, 1024])
    parser.add_argument("--profile", type=_numbers, default=[0, 192, 448])
    parser.add_argument("--kernels", type=int, default=12, help="printed of each profile")
    parser.add_argument("--clients", type=_numbers, default=[16, 64, 128])
    parser.add_argument("--rounds", type=int, default=3, help="requests of each client")
    parser.add_argument("--spec", choices=["eagle3"], help="drafts 3 tokens, of which 1.67 count")
    parser.add_argument("--model", choices=MODELS, default="llama-8b", help="whose shapes")
    parser.add_argument("--tiny", action="store_true", help="to try the benchmark itself")
    parser.add_argument("--no-save", action="store_true")
    return parser.parse_args()


def main() -> None:
    """Run the benchmark."""
    args, has_gpu = arguments(), torch.cuda.is_available()
    if not args.tiny:
        require_gpus(instead=ON_A_CPU)
    device, dtype = ("cuda", torch.bfloat16) if has_gpu else ("cpu", torch.float32)
    spec = (
        SpecConfig(args.spec, num_draft_tokens=3, synthetic_acceptance=2.67) if args.spec else None
    )
    shapes = MODELS[args.model][args.tiny]
    methods = [args.spec] if args.spec else []
    num_slots = max(max(args.decoding) + NUM_SPARE, *args.clients)
    models = RandomModels.of(methods, torch.device(device), dtype, MAX_LEN, shapes)
    with torch.inference_mode():
        is_llama = args.model.startswith("llama")
        products = product_times(models, args.rows) if has_gpu and is_llama else []
    began_s = perf_counter()
    case = MixedCase(models, spec, num_slots, PROMPT_LEN)
    print(f"executor ready: {perf_counter() - began_s:.1f} s", flush=True)
    sizes = sizes_measured(args, case)
    case.leave()
    result = {"products": products, "sizes": sizes, "loops": loops(args, case)}
    kinds = [args.spec] if args.spec else []
    kinds += [args.model] if args.model != "llama-8b" else []
    emit(
        "_".join(["mixed_iterations", *kinds]),
        vars(args),
        result,
        save=not (args.no_save or args.tiny),
    )
    if not args.spec and any(row["same"] < LEAST_SAME for row in sizes):
        sys.exit("tokens beside prompts are not those alone")


if __name__ == "__main__":
    main()
