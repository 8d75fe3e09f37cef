"""What an engine of several ranks does while one rank is slowed, stalled or killed at random, over
and over: no call may hang, no output may differ from that of one process, and each failure names
its rank.

    python -m benchmarks.rank_faults [--iterations 100000] [--pipeline] [--layers 1 --mean-s 20]

Runs the shipped model with its head in float32, on requests of several kinds, guided and free; with
--layers its first layers alone and drafts of n-grams, which takes less time. A rank that is slowed
is stopped for less than rank_timeout_s and goes on; one that is stalled stays stopped. After a
failure the ranks are started again. Exits with 1 where anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from tqdm import tqdm

from benchmarks.common import emit
from specguide import LLM, Guide, SamplingParams, SpecConfig
from specguide.config import EngineConfig
from specguide.engine.target_folder import SHIPPED_MODEL
from specguide.request import RequestOutput

_TIMEOUT_S = 3.0
_LONGEST_S = 120.0
"""Of a call; one that takes longer hangs."""
_NAMED = re.compile(r"rank 1 .*(was ended by SIGKILL|is stalled|said nothing)")
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
    """What was seen. told_s: from a fault to the end of the call that it failed, seconds"""

    iterations: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    outputs: int = 0
    failed_outputs: int = 0
    wrong: int = 0
    unnamed: list[str] = field(default_factory=list)
    left_alive: int = 0
    hangs: int = 0
    told_s: list[float] = field(default_factory=list)


class Faults:
    """Slows one process now and then, and at last stalls or kills it."""

    def __init__(self, process_id: int, rng: random.Random, mean_s: float, found: Found) -> None:
        self._process_id, self._rng, self._found = process_id, rng, found
        self._mean_s, self._is_over = mean_s, threading.Event()
        self.since_s: float | None = None
        """When it was stalled or killed."""
        self._thread = threading.Thread(target=self._run, daemon=True)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        self._thread.start()
        yield
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


def is_alive(process_id: int) -> bool:
    """Neither gone nor a zombie."""
    try:
        return Path(f"/proc/{process_id}/stat").read_text().rsplit(") ", 1)[1][0] != "Z"
    except FileNotFoundError:
        return False


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
    """One life of the ranks."""
    llm = LLM.of(config)
    (process_id,) = llm._shared._engine._executor.process_ids
    faults = Faults(process_id, rng, args.mean_s, found)
    before, goes_on = found.iterations, True
    with faults():
        while goes_on and found.iterations < args.iterations:
            watch = threading.Timer(_LONGEST_S, _hangs, [found])
            watch.start()
            outputs = llm.generate(_PROMPTS, _params())
            watch.cancel()
            goes_on = judge(outputs, expected, found)
            found.iterations = before + llm.stats().iterations
    if not goes_on and faults.since_s is not None:
        found.told_s.append(round(time.perf_counter() - faults.since_s, 2))
    llm.close()
    found.left_alive += is_alive(process_id)


def _hangs(found: Found) -> None:
    found.hangs += 1
    print(found, flush=True)
    os._exit(1)


def _params() -> list[SamplingParams]:
    return [_KINDS[i % len(_KINDS)] for i in range(len(_PROMPTS))]


def save_first_layers(folder: Path, num_layers: int) -> None:
    """The shipped model without the layers behind."""
    shutil.copytree(SHIPPED_MODEL / "target", folder, dirs_exist_ok=True)
    config = json.loads((folder / "config.json").read_text())
    config["num_hidden_layers"] = num_layers
    (folder / "config.json").write_text(json.dumps(config))
    tensors = load_file(folder / "model.safetensors")
    kept = {
        name: tensor
        for name, tensor in tensors.items()
        if not (found := re.match(r"model\.layers\.(\d+)\.", name)) or int(found[1]) < num_layers
    }
    save_file(kept, folder / "model.safetensors", {"format": "pt"})


def measure(args: argparse.Namespace, folder: Path) -> Found:
    """Until there were so many iterations. folder: for a model of fewer layers"""
    one = EngineConfig(spec=SpecConfig(), max_model_len=256, dtype="float32", device="cpu")
    if args.layers is not None:
        save_first_layers(folder, args.layers)
        one = replace(one, model=folder, spec=SpecConfig("ngram"))
    llm = LLM.of(one)
    expected = [list(output.token_ids) for output in llm.generate(_PROMPTS, _params())]
    llm.close()
    ranks = "pipeline_parallel_size" if args.pipeline else "tensor_parallel_size"
    given = {**vars(one), ranks: 2, "rank_timeout_s": _TIMEOUT_S}
    rng, found = random.Random(args.seed), Found()
    with tqdm(total=args.iterations, unit="iterations", disable=None) as bar:
        while found.iterations < args.iterations:
            until_it_fails(EngineConfig(**given), expected, rng, args, found)
            bar.update(found.iterations - bar.n)
    return found


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--iterations", type=int, default=100_000)
    parser.add_argument("--mean-s", type=float, default=4.0, help="between two faults")
    parser.add_argument("--pipeline", action="store_true", help="two stages instead of two ranks")
    parser.add_argument("--layers", type=int, help="of the shipped model; by default all, and head")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(args, Path(folder))
    result: dict[str, Any] = {**vars(found), "told_s": sorted(found.told_s)}
    for name, value in result.items():
        print(f"{name:16} {value}")
    name = "rank_faults_pipeline" if args.pipeline else "rank_faults"
    emit(name, vars(args), result, save=not args.no_save)
    raise SystemExit(bool(found.wrong or found.unnamed or found.left_alive or found.hangs))


if __name__ == "__main__":
    main()
