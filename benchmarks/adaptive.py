"""What adaptive drafting costs if drafts are never right, and what it gains if they are right
always or at times.

    python -m benchmarks.adaptive [--batches 1,4] [--rounds 7] [--tokens 1200] [--trees]

On a GPU it runs random weights of Llama-3.1-8B's shapes, on a CPU the shipped model, each with an
EAGLE-3 head and K = 3, or trees of up to 60 nodes. The target is forced to write a text of random
tokens. The drafter is forced to guess none of them ("hostile"), as many as the acceptance length
says ("friendly"), or both in turn, for so many tokens each ("switching"). Three ways to decode
write the same texts: plain, always with all drafts ("fixed"), and adaptive. They take turns; the
result is the median of the rounds' ratios, and each output is compared with its text. On a CPU the
time is that of the thread that runs the models, since other processes may share it. Prints a table,
then one JSON line.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from statistics import median
from typing import Any

import torch
from torch import Tensor

from benchmarks.baselines import ForcedAcceptance
from benchmarks.common import argument_parser, emit, facts_of
from benchmarks.models.llama_8b import RandomModels
from specguide.batch import Batch, Chunk, SamplingValues, SlotEntry
from specguide.config import CacheConfig, EngineConfig, SpecConfig
from specguide.config.resolved import resolve
from specguide.drafts.layout import NO_DRAFTS
from specguide.drafts.tree import DynamicTree
from specguide.engine.executors.local import LocalExecutor
from specguide.engine.levels.choice import AllDrafts, LevelChoice
from specguide.engine.observers import Committed
from specguide.engine.requests.walks import Walks
from specguide.engine.setup.parts import EngineParts
from specguide.engine.setup.target_folder import SHIPPED_MODEL
from specguide.models import Decoder, Eagle3Head
from specguide.params import SamplingParams
from specguide.request import Request, RequestSpec
from specguide.request_records import IterationTimes
from specguide.scheduler import Advance

K, PROMPT_LEN, MAX_LEN, PAGE_SIZE = 3, 16, 2048, 16
TEXTS = ("hostile", "friendly", "switching")


class StretchedAcceptance(ForcedAcceptance):
    """Guesses only in every second stretch of the text.

    stretch: tokens
    """

    def __init__(
        self, text: Tensor, acceptance_length: float, num_draft_tokens: int, stretch: int
    ) -> None:
        super().__init__(text, acceptance_length, num_draft_tokens)
        self._stretch = stretch

    def prepare_drafts(self, slots: Tensor, start: Tensor) -> None:
        super().prepare_drafts(slots, start)
        places = start[:, None] + self._places
        stretches = torch.div(places, self._stretch, rounding_mode="floor")
        self._is_guessed = self._is_guessed & (stretches % 2 == 1)


@dataclass(frozen=True)
class Task:
    """The texts to write. kind: one of TEXTS; stretch: tokens of a stretch; num_tokens: tokens of
    each request"""

    kind: str
    batch_size: int
    num_tokens: int
    acceptance_length: float
    stretch: int
    tree: DynamicTree | None = None

    @property
    def specs(self) -> dict[str, SpecConfig | None]:
        """The three ways."""
        spec = SpecConfig(num_draft_tokens=K, tree=self.tree)
        return {"plain": None, "fixed": spec, "adaptive": replace(spec, adaptive=True)}

    def forced(self, text: Tensor, num_drafts: int) -> ForcedAcceptance:
        """The acceptance that is forced on drafts of the text int32 [slots, L]."""
        if self.kind == "switching":
            return StretchedAcceptance(text, self.acceptance_length, num_drafts, self.stretch)
        return ForcedAcceptance(
            text, self.acceptance_length if self.kind == "friendly" else 1.0, num_drafts
        )


class EveryLevel(LevelChoice):
    """Chooses all pairs of levels in turn, so that the graphs of all are captured."""

    num_planned = 0

    def _next(self, batch: Batch) -> int:
        self.num_planned += 1
        turn, num = divmod(self.num_planned, 2), len(self.levels)
        return (turn[0] // num if turn[1] == 0 else turn[0]) % num


class Writer:
    """A runner that writes the text of its task again and again, each time as new requests."""

    def __init__(self, task: Task, spec: SpecConfig | None, models: RandomModels) -> None:
        target = models.target
        head = models.drafters["eagle3"]
        self._task = task
        layout = spec.layout if spec else NO_DRAFTS
        self._vocab_size, num_drafts = target.config.vocab_size, layout.num_drafts
        self._pages_each = -(-(MAX_LEN + num_drafts + layout.num_positions + 1) // PAGE_SIZE)
        config = EngineConfig(
            spec=spec,
            max_batch_size=task.batch_size,
            max_model_len=MAX_LEN,
            cache=CacheConfig(page_size=PAGE_SIZE, num_pages=task.batch_size * self._pages_each),
        )
        numbers = torch.Generator().manual_seed(1)
        text = torch.randint(
            3, self._vocab_size, (task.batch_size + 1, MAX_LEN), generator=numbers
        ).int()
        self._texts = text.tolist()
        self._runner = LocalExecutor.build(
            resolve(config, facts_of(target)),
            target,
            head if spec else None,
            EngineParts(sampler=task.forced(text.to(target.device), num_drafts).sampler),
        )
        self._walks, self._ids = Walks(), count()
        self._choice = AllDrafts()
        if spec and spec.adaptive:
            self._choice = EveryLevel(self._runner.capabilities.layout)
            self.write()
            self._choice = LevelChoice(self._runner.capabilities.layout)

    def write(self) -> float:
        """Seconds until all requests have written their texts."""
        size = self._task.batch_size
        self._requests = [self._request(slot) for slot in range(size)]
        batch = Batch(
            tuple(request.request_id for request in self._requests),
            tuple(range(size)),
            tuple(
                tuple(range(slot * self._pages_each, (slot + 1) * self._pages_each))
                for slot in range(size)
            ),
        )
        prefill = replace(
            batch,
            chunks=tuple(Chunk(request.prompt_ids, 0) for request in self._requests),
            entries=tuple(
                SlotEntry(MAX_LEN, (), SamplingValues(seed=slot)) for slot in range(size)
            ),
        )
        self._take(*self._launch(prefill))
        clock = time.perf_counter if torch.cuda.is_available() else time.thread_time
        begin_s = clock()
        self._run(batch, self._task.num_tokens)
        seconds = clock() - begin_s
        for slot, request in enumerate(self._requests):
            written = [*request.prompt_ids, *request.output_ids]
            if written != self._texts[slot][: len(written)]:
                sys.exit(f"the output of slot {slot} is not its text")
            self._runner.grammar.detach(slot)
            self._walks.discard(request)
            self._choice.forget(request)
        self._runner.release(batch.slots)
        while not all(map(self._runner.grammar.is_idle, batch.slots)):
            time.sleep(0.001)
        return seconds

    def _request(self, slot: int) -> Request:
        prompt = self._texts[slot][:PROMPT_LEN]
        spec = RequestSpec(next(self._ids), prompt, SamplingParams(max_tokens=MAX_LEN))
        request = Request(spec)
        self._walks.add(request, grammar=None, layout=None)
        return request

    def _run(self, batch: Batch, num_tokens: int) -> None:
        """Run until each request has so many tokens; the host lags behind as in the engine."""
        under_way: list[Any] = []
        while min(len(request.output_ids) for request in self._requests) < num_tokens:
            under_way.append(self._launch(batch))
            if len(under_way) > self._runner.capabilities.lag:
                self._take(*under_way.pop(0))
        while under_way:
            self._take(*under_way.pop(0))

    def _launch(self, batch: Batch) -> tuple[Batch, Any]:
        batch = self._choice.choose(batch)
        self._runner.grammar.submit(self._walks.snapshot(batch, self._requests))
        return batch, self._runner.execute(batch)

    def _take(self, batch: Batch, pending: Any) -> None:
        output = pending.result()
        rows = zip(output.tokens.tolist(), output.num_tokens.tolist(), strict=True)
        advances = [Advance(tuple(tokens[:num_tokens])) for tokens, num_tokens in rows]
        for request, advance in zip(self._requests, advances, strict=True):
            request.output_ids += advance.tokens
        times = IterationTimes(0.0, 0.0, time.perf_counter())
        self._choice.take(Committed(batch, self._requests, output, times, advances))


def measure(task: Task, models: RandomModels, num_rounds: int) -> dict[str, Any]:
    """One row: tokens per second of each way, and the ratios of the adaptive one to the others,
    round by round."""
    writers = {name: Writer(task, spec, models) for name, spec in task.specs.items()}
    for writer in writers.values():
        writer.write()
    orders = [
        random.Random(number).sample(list(writers), len(writers)) for number in range(num_rounds)
    ]
    rounds = [{name: writers[name].write() for name in order} for order in orders]
    row: dict[str, Any] = {
        "text": task.kind,
        "batch_size": task.batch_size,
        "drafts": "trees" if task.tree else "chains",
    }
    for name in writers:
        seconds = median(times[name] for times in rounds)
        row[f"{name}_tokens_per_s"] = round(task.batch_size * task.num_tokens / seconds, 1)
    for name in ("plain", "fixed"):
        row[f"of_{name}"] = round(median(times[name] / times["adaptive"] for times in rounds), 3)
    return row


def load_models() -> RandomModels:
    """The target and the draft head for this device, as the module's docstring says."""
    if torch.cuda.is_available():
        return RandomModels.of(["eagle3"], torch.device("cuda"), torch.bfloat16, MAX_LEN)
    target = Decoder.load(
        SHIPPED_MODEL / "target", torch.device("cpu"), torch.float32, max_positions=MAX_LEN
    )
    return RandomModels(target, {"eagle3": Eagle3Head.load(SHIPPED_MODEL / "eagle3", target)})


def told(rows: Sequence[dict[str, Any]]) -> None:
    """Print the table."""
    print(f"{'text':<10} {'batch':>5} {'plain':>9} {'fixed':>9} {'adaptive':>9}  ÷ plain  ÷ fixed")
    for row in rows:
        print(
            f"{row['text']:<10} {row['batch_size']:>5} {row['plain_tokens_per_s']:>9.0f} "
            f"{row['fixed_tokens_per_s']:>9.0f} {row['adaptive_tokens_per_s']:>9.0f} "
            f"{row['of_plain']:>8.3f} {row['of_fixed']:>8.3f}",
            flush=True,
        )


def main() -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("--batches", default="1,4")
    parser.add_argument("--texts", default=",".join(TEXTS), help="comma-separated")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--tokens", type=int, default=1200, help="of each request")
    parser.add_argument("--acceptance", type=float, default=2.86)
    parser.add_argument(
        "--stretch", type=int, default=200, help="tokens of a stretch of the switching text"
    )
    parser.add_argument("--trees", action="store_true", help="of up to 60 nodes, instead of chains")
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    models = load_models()
    tree = DynamicTree() if args.trees else None
    rows = [
        measure(
            Task(kind, batch_size, args.tokens, args.acceptance, args.stretch, tree),
            models,
            args.rounds,
        )
        for batch_size in map(int, args.batches.split(","))
        for kind in args.texts.split(",")
    ]
    told(rows)
    emit(
        "adaptive_trees" if args.trees else "adaptive",
        {**vars(args), "prompt_len": PROMPT_LEN, "num_draft_tokens": K, "torch": torch.__version__},
        rows,
        save=not args.no_save,
    )


if __name__ == "__main__":
    main()
