"""What an iteration costs at Llama-3.1-8B shapes: guided against unguided, one mode of the engine
against another.

    SPECGUIDE_DATA=… python -m benchmarks.iteration [--batches 1,4,16,64,128] [--modes …]
    [--iterations 200]

Random bf16 weights, an EAGLE-3 head with a draft vocabulary of 32,000, or an MTP head or a 1B model
as drafter, the vocabulary of 128,256 tokens, K = 3, and contexts that grow from 60 to some 630
tokens, 350 in the mean. In all modes the requests write the same text, valid instances of eight
real-world schemas from different places on, and the drafter guesses the same part of it, to which
forced and looked-up drafts may add. Before anything is timed, each output is compared with its text
and walked through a fresh matcher, which must take every token. Times are between the ends of
successive iterations on the forward stream. Prints a table, then one JSON line.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.baselines import ForcedAcceptance
from benchmarks.common import emit
from benchmarks.gpu_clock import GpuClock
from benchmarks.iteration_modes import WINDOWS, K, Mode, modes
from benchmarks.llama_8b import RandomModels
from benchmarks.real_text import Case, Started, load_cases, load_vocabulary
from specguide.batch import Batch, Chunk, SamplingValues, SlotEntry
from specguide.config import CacheConfig, EngineConfig, GuideConfig
from specguide.engine.executors.local import LocalExecutor
from specguide.engine.facts import facts_of
from specguide.engine.walks import Walks
from specguide.guided.backends import CompiledGrammar
from specguide.guided.compile import GrammarCompiler
from specguide.params import SamplingParams
from specguide.request import Request, RequestSpec
from specguide.resolved_config import resolve
from specguide.trace import write_chrome_trace

PROMPT_LEN, MAX_LEN, PAGE_SIZE = 30, 2048, 16
NUM_WARM_UP = 10
SCHEMAS = (
    "Github_easy---o9959",
    "Github_hard---o13029",
    "Github_hard---o30532",
    "Github_hard---o63004",
    "Github_ultra---o9354",
    "Github_ultra---o66714",
    "JsonSchemaStore---traefik-v2",
    "Snowplow---sp_339_Normalized",
)


@dataclass(frozen=True)
class Workload:
    """What slots write: slot i goes on with case i, cyclically, from a place of its own.

    num_tokens: that a slot may write at most
    guide:      deadlines and threads
    """

    cases: Sequence[Case]
    grammars: Sequence[CompiledGrammar]
    acceptance: float
    num_tokens: int
    guide: GuideConfig

    def of_slot(self, slot: int) -> tuple[Started, list[int]]:
        """The grammar, with what lies behind the slot, and the tokens that lie ahead."""
        ids = self.cases[slot % len(self.cases)].token_ids
        if len(ids) <= self.num_tokens:
            sys.exit(
                f"the texts are too short for so many iterations: {len(ids)} tokens, "
                f"{self.num_tokens} needed"
            )
        offset = random.Random(slot).randrange(len(ids) - self.num_tokens)
        return Started(self.grammars[slot % len(self.cases)], ids[:offset]), ids[
            offset : offset + self.num_tokens
        ]


class Run:
    """A runner with `batch_size` requests under way that do not end."""

    def __init__(
        self,
        mode: Mode,
        models: RandomModels,
        batch_size: int,
        workload: Workload,
        *,
        is_traced: bool = False,
    ) -> None:
        target, layout = models.target, mode.layout
        num_behind = layout.num_drafts + layout.num_positions + layout.num_forced + 1
        pages_each = -(-(MAX_LEN + num_behind) // PAGE_SIZE)
        config = EngineConfig(
            spec=mode.spec,
            guide=replace(workload.guide, callbacks=mode.callbacks) if mode.has_guides else None,
            max_batch_size=batch_size,
            max_model_len=MAX_LEN,
            trace=is_traced,
            cache=CacheConfig(page_size=PAGE_SIZE, num_pages=batch_size * pages_each),
        )
        numbers = random.Random(1)
        text = torch.zeros(batch_size + 1, PROMPT_LEN + workload.num_tokens, dtype=torch.int32)
        self.requests, self.texts = list[Request](), list[list[int]]()
        self.grammars, self.walks = list[Started | None](), Walks()
        for slot in range(batch_size):
            prompt = [numbers.randrange(128_000) for _ in range(PROMPT_LEN)]
            request = Request(RequestSpec(slot, prompt, SamplingParams(max_tokens=MAX_LEN)))
            grammar, ahead = workload.of_slot(slot)
            is_guided = slot < round(mode.guided_share * batch_size)
            self.grammars.append(grammar if is_guided else None)
            self.walks.add(request, self.grammars[slot], layout=None)
            text[slot] = torch.tensor(prompt + ahead)
            self.requests.append(request)
            self.texts.append(ahead)
        forced = ForcedAcceptance(
            text.to(target.device),
            workload.acceptance if layout.num_model else 1.0,
            layout.num_drafts,
        )
        drafter = models.drafters[mode.spec.method] if mode.spec and layout.num_model else None
        parts = replace(mode.parts, sampler=forced.sampler)
        self.runner = LocalExecutor.of(resolve(config, facts_of(target)), target, drafter, parts)
        self.tables = [
            tuple(range(slot * pages_each, (slot + 1) * pages_each)) for slot in range(batch_size)
        ]
        for first in range(0, batch_size, 16):
            self._prefill(range(first, min(first + 16, batch_size)))

    def launch(self, slots: Sequence[int], *, is_prefill: bool = False) -> Any:
        batch = self._batch(slots, is_prefill=is_prefill)
        requests = [self.requests[slot] for slot in slots]
        self.runner.grammar.submit(self.walks.snapshot(batch, requests))
        return self.runner.execute(batch)

    def run(self, num_iterations: int) -> list[float]:
        """Milliseconds between the ends of successive iterations; the host lags as it does in the
        engine."""
        slots, stream = range(len(self.requests)), self.runner.grammar.forward.torch
        batch, pending, marks = self._batch(slots), [], []
        for _ in range(num_iterations + 1):
            pending.append(self.launch(slots))
            marks.append(_mark(stream))
            if len(pending) > self.runner.capabilities.lag:
                self._take(batch, pending.pop(0))
        for last in pending:
            self._take(batch, last)
        return [_elapsed_ms(*pair) for pair in pairwise(marks)]

    def check(self) -> None:
        """Exits unless each output is its text, and the grammar of a guided one takes it."""
        errors = self.runner.grammar.errors(range(len(self.requests)))
        if errors:
            sys.exit(f"requests failed: {errors}")
        for slot, (request, text) in enumerate(zip(self.requests, self.texts, strict=True)):
            if request.output_ids != text[: len(request.output_ids)]:
                sys.exit(f"the output of slot {slot} is not its text")
            grammar = self.grammars[slot]
            if grammar is not None:
                matcher = grammar.matcher()
                if not all(matcher.accept(token) for token in request.output_ids):
                    sys.exit(f"the output of slot {slot} leaves the grammar")

    def close(self) -> None:
        for slot in range(len(self.requests)):
            self.runner.grammar.detach(slot)
        del self.runner
        gc.collect()  # the caches of two cases are more than the device has

    def acceptance_length(self, since: int, num_iterations: int) -> float:
        gained = sum(len(request.output_ids) for request in self.requests) - since
        return gained / num_iterations / len(self.requests)

    @property
    def num_tokens(self) -> int:
        return sum(len(request.output_ids) for request in self.requests)

    def _batch(self, slots: Sequence[int], *, is_prefill: bool = False) -> Batch:
        batch = Batch(tuple(slots), tuple(slots), tuple(self.tables[slot] for slot in slots))
        if not is_prefill:
            return batch
        requests = [self.requests[slot] for slot in slots]
        chunks = tuple(
            Chunk(request.prompt_ids, 0, starts_walk=request.metrics.num_held == 0)
            for request in requests
        )
        entries = tuple(SlotEntry(MAX_LEN, (), SamplingValues(seed=slot)) for slot in slots)
        return replace(batch, chunks=chunks, entries=entries)

    def _prefill(self, slots: Sequence[int]) -> None:
        """Until each slot has its first token: one whose first row is late starts again."""
        while slots:
            self._take(self._batch(slots, is_prefill=True), self.launch(slots, is_prefill=True))
            slots = [slot for slot in slots if not self.requests[slot].output_ids]
            for slot in slots:
                self.requests[slot].metrics.num_held += 1

    def _take(self, batch: Batch, pending: Any) -> None:
        output = pending.result()
        for slot, row, num in zip(
            batch.slots, output.tokens.tolist(), output.num_tokens.tolist(), strict=True
        ):
            self.requests[slot].output_ids += row[:num]


def _mark(stream: torch.cuda.Stream | None) -> Any:
    if stream is None:
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record(stream)
    return event


def _elapsed_ms(start: Any, end: Any) -> float:
    return 1e3 * (end - start) if isinstance(start, float) else start.elapsed_time(end)


def measure(
    mode: Mode,
    models: RandomModels,
    batch_size: int,
    num_iterations: int,
    workload: Workload,
    bandwidth: float,
    *,
    is_profiled: bool = False,
    trace: str | None = None,
) -> dict[str, Any]:
    """One row: builds the case, warms it up, checks its outputs, times it, checks again. trace:
    folder of a timeline"""
    case = Run(mode, models, batch_size, workload, is_traced=trace is not None)
    case.run(NUM_WARM_UP)
    case.check()
    num_timed = NUM_WARM_UP + num_iterations + 1
    before, counters = case.num_tokens, case.runner.grammar.counters()
    with GpuClock() as clock:
        times = np.array(case.run(NUM_WARM_UP + num_iterations))[
            NUM_WARM_UP:
        ]  # an idle GPU lowers its clocks
    case.check()
    after = case.runner.grammar.counters()
    num_cached = batch_size * PROMPT_LEN + (before + case.num_tokens) / 2
    num_drafts, method = mode.layout.num_model, mode.spec.method if mode.spec else ""
    floor_s = models.num_bytes_read(method, num_drafts, num_cached) / bandwidth
    row = {
        "mode": mode.name,
        "batch_size": batch_size,
        "median_ms": round(float(np.median(times)), 3),
        "floor_ms": round(1e3 * floor_s, 3),
        "p99_ms": round(float(np.percentile(times, 99)), 3),
        "max_ms": round(float(times.max()), 3),
        "p99_of_near": round(float(np.percentile(times / running_median(times), 99)), 3),
        "acceptance_length": round(case.acceptance_length(before, num_timed), 3),
        "callbacks_us": round((after.callback_ns - counters.callback_ns) / 1e3 / num_timed, 1),
        "fills": after.fills - counters.fills,
        "workers_us": round((after.busy_ns - counters.busy_ns) / 1e3 / num_timed, 1),
        "held": after.held - counters.held,
        "late_draft_rows": after.late_draft_rows - counters.late_draft_rows,
        **clock.summary(),
    }
    row["tokens_per_s"] = round(1e3 * batch_size * row["acceptance_length"] / row["median_ms"])
    if trace is not None:
        Path(trace).mkdir(parents=True, exist_ok=True)
        write_chrome_trace(
            Path(trace, f"{mode.name} of {batch_size}.json"), case.runner.grammar.recorder.spans()
        )
    if is_profiled:
        print_kernels(case)
    case.close()
    return row


def running_median(times: np.ndarray, reach: int = 10) -> np.ndarray:
    """Of each time and up to `reach` on either side: contexts grow, and a GPU that gets hot lowers
    its clock."""
    return np.array(
        [np.median(times[max(0, i - reach) : i + reach + 1]) for i in range(len(times))]
    )


def real_workload(
    schemas: Sequence[str],
    acceptance: float,
    num_iterations: int,
    guide: GuideConfig,
    num_lookup: int = 0,
) -> Workload:
    """Enough text for so many iterations, with room for the pattern's ups and downs.

    num_lookup: most drafts that are looked up; how many of them are right, no pattern says
    """
    vocabulary, tokenizer = load_vocabulary()
    cases = load_cases(tokenizer, schemas)
    compiler = GrammarCompiler(vocabulary, guide)
    grammars = [compiler.compile(case.guide) for case in cases]
    compiler.close()
    num_iterations += 2 * NUM_WARM_UP + 2
    num_tokens = round(num_iterations * acceptance * 1.2) + 2 * max(WINDOWS)
    if num_lookup:
        shortest = min(len(case.token_ids) for case in cases)
        num_tokens = max(num_tokens, min(num_iterations * (num_lookup + 1), shortest - 1))
    return Workload(cases, grammars, acceptance, num_tokens, guide)


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


def print_row(row: dict[str, Any]) -> None:
    """One line of the table."""
    print(
        f"{row['batch_size']:>5}  {row['mode']:<20} {row['median_ms']:>8.3f} {row['p99_ms']:>8.3f} "
        f"{row['p99_of_near']:>7.2f} {row['floor_ms']:>8.3f} {row['acceptance_length']:>7.2f} "
        f"{row['tokens_per_s']:>9} {row['callbacks_us']:>7.0f} µs {row['workers_us']:>6.0f} µs "
        f"{row['held']:>5} {row['late_draft_rows']:>5} {row.get('sm_mhz', 0):>5.0f} MHz",
        flush=True,
    )


def add_ratios(rows: Sequence[dict[str, Any]]) -> None:
    """To the modes of one batch size that draft as the engine without guides does: how many times
    its iteration they take."""
    medians = {row["mode"]: row["median_ms"] for row in rows}
    for row in rows:
        if "grammarless" in medians and row["mode"] in ("unguided", "guided", "20 % guided"):
            row["of_grammarless"] = round(row["median_ms"] / medians["grammarless"], 4)
            print(f"       {row['mode']} ÷ grammarless: {row['of_grammarless']:.4f}", flush=True)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batches", default="1,4,16,64,128")
    parser.add_argument(
        "--modes",
        default="grammarless,unguided,guided,20 % guided",
        help="comma-separated, or all",
    )
    parser.add_argument("--iterations", type=int, default=200)
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
    args = parser.parse_args()
    has_gpu = torch.cuda.is_available()
    device, dtype = (
        torch.device("cuda" if has_gpu else "cpu"),
        torch.bfloat16 if has_gpu else torch.float32,
    )
    guide = GuideConfig(
        num_threads=args.threads,
        draft_wait_us=args.draft_wait_us,
        target_wait_us=args.target_wait_us,
    )
    known = modes()
    chosen = [known[name] for name in (known if args.modes == "all" else args.modes.split(","))]
    methods = [mode.spec.method for mode in chosen if mode.spec and mode.layout.num_model]
    models = RandomModels.of(methods, device, dtype, MAX_LEN, is_tiny=args.tiny)
    workload = real_workload(
        SCHEMAS[: args.schemas],
        args.acceptance,
        args.iterations,
        guide,
        max(mode.layout.num_lookup for mode in chosen),
    )
    bandwidth = float("inf")
    if has_gpu:
        from benchmarks.kernels import copy_bandwidth

        bandwidth = copy_bandwidth()
    print(
        f"{'batch':>5}  {'mode':<20} {'median':>8} {'p99':>8} {'÷ near':>7} {'floor':>8} "
        f"{'accept':>7} "
        f"{'tokens/s':>9} {'callbacks':>10} {'workers':>9} {'held':>5} {'late':>5} {'clock':>9}"
    )
    rows = []
    for batch_size in map(int, args.batches.split(",")):
        for mode in chosen:
            if 0 < mode.guided_share * batch_size < 1:
                continue
            row = measure(
                mode,
                models,
                batch_size,
                args.iterations,
                workload,
                bandwidth,
                is_profiled=args.profile and has_gpu,
                trace=args.trace,
            )
            print_row(row)
            rows.append(row)
        add_ratios([row for row in rows if row["batch_size"] == batch_size])
    emit(
        "iteration",
        {**vars(args), "prompt_len": PROMPT_LEN, "num_draft_tokens": K, "torch": torch.__version__},
        rows,
        {"copy_gb_per_s": round(bandwidth / 1e9, 1)} if has_gpu else None,
        save=not (args.no_save or args.tiny or args.trace),
    )


if __name__ == "__main__":
    main()
