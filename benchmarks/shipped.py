"""The shipped model on fresh tasks: first whether speculation is lossless, then field accuracy and
acceptance length.

    python -m benchmarks.shipped --samples 60

Every task that has a schema is guided by it, the others are free, all in the same batches, greedy,
float32. The outputs with speculation must equal those of plain decoding token for token before any
figure is printed.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from benchmarks.common import argument_parser, emit
from benchmarks.guides.tasks import prompt_of
from specguide import LLM, Guide, SamplingParams, SpecConfig
from specguide.drafts.methods import method_names
from specguide.request import RequestOutput
from training.counts import one_or_more
from training.data import chat
from training.data.groups import SAMPLERS, samples_of
from training.evaluate.fields import score


@dataclass(frozen=True)
class Run:
    """Outputs of all tasks under one way of decoding."""

    outputs: list[RequestOutput]
    seconds: float
    stats: dict[str, Any]


def run(
    tasks: Sequence[chat.Task],
    *,
    spec: SpecConfig | None,
    batch: int,
    max_tokens: int,
    temperature: float,
) -> Run:
    """Generate all tasks with the shipped model."""
    llm = LLM(spec=spec, max_batch_size=batch)
    prompts = [prompt_of(task, llm.tokenizer) for task in tasks]
    params = [
        SamplingParams(
            max_tokens=max_tokens,
            temperature=temperature,
            seed=number,
            guide=Guide(json_schema=task.schema) if task.schema else None,
        )
        for number, task in enumerate(tasks)
    ]
    start = time.perf_counter()
    outputs = llm.generate(prompts, params)
    seconds = time.perf_counter() - start
    stats = llm.stats().as_dict()
    llm.close()
    return Run(outputs, seconds, stats)


def group_figures(tasks: list[chat.Task], outputs: list[RequestOutput]) -> dict[str, float]:
    """Field accuracy and acceptance length of one group of tasks."""
    result = score(tasks, [output.text for output in outputs])
    gained = sum(
        output.metrics.acceptance_length * output.metrics.num_iterations for output in outputs
    )
    return {
        "samples": len(tasks),
        "fields": result.fields,
        "accuracy": round(result.accuracy, 4),
        "whole_right": round(result.whole_right / len(tasks), 4),
        "errors": sum(output.error is not None for output in outputs),
        "truncated": sum(output.finish_reason == "length" for output in outputs),
        "acceptance_length": round(
            gained / max(1, sum(o.metrics.num_iterations for o in outputs)), 3
        ),
    }


def _print_groups(figures: dict[str, dict[str, Any]]) -> None:
    print(
        f"{'group':26} {'fields':>7} {'right':>7} {'whole':>7} {'errors':>7} {'cut':>5} "
        f"{'acceptance length':>18}"
    )
    for name, row in figures.items():
        print(
            f"{name:26} {row['fields']:7} {row['accuracy']:7.1%} {row['whole_right']:7.1%} "
            f"{row['errors']:7} {row['truncated']:5} {row['acceptance_length']:18.2f}"
        )


def _arguments() -> argparse.Namespace:
    parser = argument_parser(__doc__)
    parser.add_argument("--samples", type=one_or_more, default=60, help="tasks a group")
    parser.add_argument("--seed", type=int, default=777)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--max-tokens", type=int, default=400)
    parser.add_argument(
        "--method", default="eagle3", choices=method_names(), help="how drafts are made"
    )
    parser.add_argument(
        "--head", help="folder of the head or small model; the shipped head when left out"
    )
    parser.add_argument("--num-draft-tokens", type=int, default=3)
    parser.add_argument("--temperature", type=float, default=0.0)
    return parser.parse_args()


def main() -> None:
    """Run the benchmark; exits with 1 when speculation changed an output."""
    args = _arguments()
    groups = {name: samples_of(name, args.seed, args.samples) for name in SAMPLERS}
    tasks = [task for samples in groups.values() for task in samples]
    options = dict(batch=args.batch, max_tokens=args.max_tokens, temperature=args.temperature)
    spec = run(tasks, spec=SpecConfig(args.method, args.head, args.num_draft_tokens), **options)
    plain = run(tasks, spec=None, **options)
    changed = [
        number
        for number, (a, b) in enumerate(zip(spec.outputs, plain.outputs, strict=True))
        if a.token_ids != b.token_ids
    ]
    print(
        f"{len(tasks)} tasks, {sum(task.schema is not None for task in tasks)} guided; "
        f"{len(changed)} outputs changed by speculation {changed[:10]}"
    )
    outputs = iter(spec.outputs)
    figures = {
        name: group_figures(samples, list(islice(outputs, len(samples))))
        for name, samples in groups.items()
    }
    _print_groups(figures)
    emit(
        "shipped",
        config=vars(args),
        result={
            "outputs_changed": len(changed),
            "groups": figures,
            "seconds": {"speculative": spec.seconds, "plain": plain.seconds},
            "speculative": spec.stats,
        },
    )
    raise SystemExit(1 if changed else 0)


if __name__ == "__main__":
    main()
