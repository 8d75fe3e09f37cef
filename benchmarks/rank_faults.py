"""What an engine of several ranks does while one rank is slowed, stalled or killed at random, over
and over: no call may hang, no output may differ from that of one process, and each failure names
its rank.

    python -m benchmarks.rank_faults [--iterations 100000] [--pipeline] [--small --processes 14]

Runs the shipped model with its head in float32, on requests of several kinds, guided and free; with
--small its first layer (two in a pipeline), 512 tokens alone and drafts of n-grams, which takes
less time. A rank that is slowed is stopped for less than rank_timeout_s and goes on; one that is
stalled stays stopped. After a failure the ranks are started again. With --processes so many pairs
of ranks run beside each other, each with faults of its own, on a core a rank. Exits with 1 where
anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.common import argument_parser, emit
from benchmarks.models.small import save_small
from benchmarks.services.process import is_alive
from specguide import LLM, Guide, SamplingParams, SpecConfig
from specguide.config import EngineConfig
from specguide.errors import EngineError
from specguide.request import RequestOutput

_TIMEOUT_S = 3.0
_LONGEST_S = 120.0
"""Longest time of a call; one that takes longer hangs."""
_MOST_STARTS = 5
"""Most starts of ranks that do not come, one after another."""
_NAMED = re.compile(r"rank 1 .*(was ended by SIGKILL|is stalled|sent no answer)")
_SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}
_KINDS = [
    SamplingParams(max_tokens=48, ignore_eos=True),
    SamplingParams(max_tokens=48, temperature=0.9, top_p=0.9, seed=3, ignore_eos=True),
    SamplingParams(max_tokens=48, guide=Guide(json_schema=_SCHEMA)),
    SamplingParams(max_tokens=48, temperature=0.8, seed=4, guide=Guide(regex="([a-z]{3} ?)+")),
]
_PROMPTS = [f"{i} of the bridges over the river" for i in range(8)]


@dataclass
class Found:
    """What was seen.

    needless:  calls that failed with a rank that was only slow
    unstarted: ranks that did not start in time, and were started again
    ended:     pairs that ended without a result
    told_s:    from a fault to the end of the call that it failed, seconds
    """

    iterations: int = 0
    lives: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    outputs: int = 0
    failed_outputs: int = 0
    wrong: int = 0
    unnamed: list[str] = field(default_factory=list)
    needless: int = 0
    unstarted: int = 0
    left_alive: int = 0
    hangs: int = 0
    ended: int = 0
    told_s: list[float] = field(default_factory=list)

    @property
    def is_wrong(self) -> bool:
        """Whether anything was seen that must not be."""
        return bool(self.wrong or self.unnamed or self.left_alive or self.hangs or self.ended)

    def add(self, other: Found) -> None:
        """What another pair of ranks saw."""
        self.faults = Counter(self.faults) + Counter(other.faults)
        for name, value in vars(other).items():
            if name != "faults":
                setattr(self, name, getattr(self, name) + value)


class Faults:
    """Slows one process now and then, and at last stalls or kills it."""

    def __init__(self, process_id: int, rng: random.Random, mean_s: float, found: Found) -> None:
        self._process_id, self._rng, self._found = process_id, rng, found
        self._mean_s = mean_s
        self._is_over = threading.Event()
        self.since_s: float | None = None
        """When it was stalled or killed."""
        self._thread = threading.Thread(target=self._run, daemon=True)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(self._rng.expovariate(1 / self._mean_s)):
            kind = self._rng.choices(("slowed", "stalled", "killed"), (8, 1, 1))[0]
            self._found.faults[kind] += 1
            with suppress(ProcessLookupError):
                if kind == "slowed":
                    self._send(signal.SIGSTOP)
                    time.sleep(self._rng.uniform(0, _TIMEOUT_S / 3))
                    self._send(signal.SIGCONT)
                    continue
                self.since_s = time.perf_counter()
                self._send(signal.SIGKILL if kind == "killed" else signal.SIGSTOP)
            return

    def _send(self, what: signal.Signals) -> None:
        os.kill(self._process_id, what)


def judge(outputs: list[RequestOutput], expected: list[list[int]], found: Found) -> bool:
    """Count what came. Returns whether the engine goes on."""
    errors = [str(output.error) for output in outputs if output.error is not None]
    found.outputs += len(outputs)
    found.failed_outputs += len(errors)
    found.unnamed += [error for error in errors if not _NAMED.search(error)]
    found.wrong += sum(
        output.error is None and list(output.token_ids) != tokens
        for output, tokens in zip(outputs, expected, strict=True)
    )
    return not errors


def until_it_fails(
    config: EngineConfig,
    expected: list[list[int]],
    rng: random.Random,
    args: argparse.Namespace,
    found: Found,
) -> None:
    """Runs one life of the ranks, until it fails."""
    llm = started(config, found)
    executor: Any = llm._shared._engine._executor
    (process_id,) = executor.process_ids
    faults = Faults(process_id, rng, args.mean_s, found)
    before = found.iterations
    goes_on = True
    with faults():
        while goes_on and goes_further(found, args):
            watch = threading.Timer(_LONGEST_S, _hangs, [found])
            watch.start()
            outputs = llm.generate(_PROMPTS, _params())
            watch.cancel()
            goes_on = judge(outputs, expected, found)
            found.iterations = before + llm.stats().iterations
    if not goes_on:
        if faults.since_s is None:
            found.needless += 1
        else:
            found.told_s.append(round(time.perf_counter() - faults.since_s, 2))
    llm.close()
    found.left_alive += is_alive(process_id)


def started(config: EngineConfig, found: Found) -> LLM:
    """The ranks, which have loaded. Raises EngineError where they do not come over and over."""
    for _ in range(_MOST_STARTS - 1):
        with suppress(EngineError):
            return LLM.of(config)
        found.unstarted += 1
    return LLM.of(config)


def goes_further(found: Found, args: argparse.Namespace) -> bool:
    """There have been neither so many iterations nor so many seconds."""
    return found.iterations < args.iterations and time.perf_counter() < args.until_s


def _hangs(found: Found) -> None:
    found.hangs += 1
    print(json.dumps({"result": asdict(found)}), flush=True)
    os._exit(1)


def _params() -> list[SamplingParams]:
    return [_KINDS[i % len(_KINDS)] for i in range(len(_PROMPTS))]


def measure(args: argparse.Namespace, folder: Path) -> Found:
    """Until there were so many iterations. folder: for the small model"""
    one = EngineConfig(spec=SpecConfig(), max_model_len=256, dtype="float32", device="cpu")
    if args.small:
        save_small(folder, num_layers=2 if args.pipeline else 1)
        one = replace(one, model=folder, spec=SpecConfig("ngram"))
    llm = LLM.of(one)
    expected = [list(output.token_ids) for output in llm.generate(_PROMPTS, _params())]
    llm.close()
    ranks = "pipeline_parallel_size" if args.pipeline else "tensor_parallel_size"
    given = {**vars(one), ranks: 2, "rank_timeout_s": _TIMEOUT_S}
    rng, found = random.Random(args.seed), Found()
    with tqdm(total=args.iterations, unit="iterations", disable=None) as bar:
        while goes_further(found, args):
            found.lives += 1
            until_it_fails(EngineConfig(**given), expected, rng, args, found)
            bar.update(found.iterations - bar.n)
    return found


def measure_beside(args: argparse.Namespace) -> Found:
    """Pairs of ranks that share the iterations, each a command of its own."""
    own = [sys.executable, "-m", "benchmarks.rank_faults", "--no-save", f"--mean-s={args.mean_s}"]
    own += [f"--iterations={-(-args.iterations // args.processes)}"]
    own += [f"--seconds={args.seconds}"] if args.seconds else []
    own += [f"--{name}" for name in ("small", "pipeline") if getattr(args, name)]
    threads = {"OMP_NUM_THREADS": "1", "SPECGUIDE_GRAMMAR_THREADS": "1"}
    pairs = [
        subprocess.Popen(
            [*own, f"--seed={args.seed + i}"],
            env={**os.environ, **threads},
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(args.processes)
    ]
    found = Found()
    for pair in pairs:
        lines = pair.communicate()[0].splitlines()
        is_told = bool(lines) and lines[-1].startswith("{")
        found.add(Found(**json.loads(lines[-1])["result"]) if is_told else Found(ended=1))
    return found


def main() -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("--iterations", type=int, default=100_000)
    parser.add_argument("--mean-s", type=float, default=4.0, help="between two faults")
    parser.add_argument("--pipeline", action="store_true", help="two stages instead of two ranks")
    parser.add_argument("--small", action="store_true", help="fewest layers, 512 tokens, no head")
    parser.add_argument("--processes", type=int, default=1, help="pairs of ranks")
    parser.add_argument("--seconds", type=float, help="end after so many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    config = vars(args).copy()
    args.until_s = time.perf_counter() + (args.seconds or 1e9)
    if args.processes > 1:
        found = measure_beside(args)
    else:
        with tempfile.TemporaryDirectory() as folder:
            found = measure(args, Path(folder))
    result: dict[str, Any] = {**vars(found), "told_s": sorted(found.told_s)}
    for name, value in result.items():
        print(f"{name:16} {value}")
    name = "rank_faults_pipeline" if args.pipeline else "rank_faults"
    emit(name, config, result, save=not args.no_save)
    raise SystemExit(found.is_wrong)


if __name__ == "__main__":
    main()
