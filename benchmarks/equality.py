"""How often rounding decides a token: bfloat16 against itself with other batch shapes, and against
float32.

    python -m benchmarks.equality [--samples 20] [--batch 64]

The same greedy tasks of the training generator, guided and free in the same batches, are decoded
with speculation and without, in bfloat16 and in float32. Speculation verifies a token together with
others, while plain decoding computes it alone. So sums are rounded differently, and if two tokens
tie, a different one may win. For each pair it prints how many requests differ, what share of the
tokens comes before the first difference, and how far apart the logits of the two tokens are there
in float64. Prints a table, then one JSON line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from benchmarks.common import argument_parser, emit
from benchmarks.guides.tasks import fresh_tasks, prompt_of
from specguide import LLM, Guide, GuideConfig, SamplingParams, SpecConfig
from specguide.engine.setup.target_folder import SHIPPED_MODEL
from specguide.tokenizer import Tokenizer
from training.data import chat

PATIENT = GuideConfig(deadline_us=2_000_000, target_wait_us=2_000_000, draft_wait_us=2_000_000)
"""No row is ever late, so that the same drafts are verified each time."""


@dataclass(frozen=True)
class Difference:
    """Where two outputs of one request differ: the index of the token, and the token of each; None
    behind its end."""

    request: int
    position: int
    tokens: tuple[int | None, int | None]


def prompts_of(tasks: Sequence[chat.Task]) -> list[list[int]]:
    """The token ids of each task's prompt."""
    tokenizer = Tokenizer.from_folder(SHIPPED_MODEL / "target")
    return [prompt_of(task, tokenizer) for task in tasks]


def greedy(tasks: Sequence[chat.Task], max_tokens: int) -> list[SamplingParams]:
    """Greedy parameters for each task; a task that has a schema is guided by it."""
    return [
        SamplingParams(
            max_tokens=max_tokens, guide=Guide(json_schema=task.schema) if task.schema else None
        )
        for task in tasks
    ]


def differences(ones: Sequence[Sequence[int]], others: Sequence[Sequence[int]]) -> list[Difference]:
    """The first difference of each pair of token lists that has one."""
    found = []
    for request, (one, other) in enumerate(zip(ones, others, strict=True)):
        if tuple(one) != tuple(other):
            same = num_same(one, other)
            found.append(Difference(request, same, (_at(one, same), _at(other, same))))
    return found


def num_same(one: Sequence[int], other: Sequence[int]) -> int:
    """Tokens before the first difference."""
    return next(
        (at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]),
        min(len(one), len(other)),
    )


@torch.inference_mode()
def logit_gap(token_ids: Sequence[int], tokens: tuple[int | None, int | None]) -> float | None:
    """The distance of two tokens' logits behind `token_ids`, by the shipped target in float64, with
    transformers.

    None where one of the two is none.
    """
    if None in tokens:
        return None
    logits = _exact_model()(torch.tensor([list(token_ids)])).logits[0, -1]
    return float((logits[tokens[0]] - logits[tokens[1]]).abs())


@cache
def _exact_model() -> Any:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(
        SHIPPED_MODEL / "target", dtype=torch.float64, trust_remote_code=False
    )
    return model.eval()


def _at(tokens: Sequence[int], index: int) -> int | None:
    return tokens[index] if index < len(tokens) else None


def generate(
    tasks: Sequence[chat.Task], *, dtype: str, spec: SpecConfig | None, batch: int, max_tokens: int
) -> list[tuple[int, ...]]:
    """Tokens of each task. Exits where a request failed."""
    llm = LLM(spec=spec, dtype=dtype, max_batch_size=batch, guide=PATIENT)
    outputs = llm.generate(prompts_of(tasks), greedy(tasks, max_tokens))
    llm.close()
    errors = [output.error for output in outputs if output.error is not None]
    if errors:
        raise SystemExit(f"{len(errors)} requests failed, the first with: {errors[0]}")
    return [output.token_ids for output in outputs]


def compare(
    ones: Sequence[tuple[int, ...]], others: Sequence[tuple[int, ...]], prompts: Sequence[list[int]]
) -> dict[str, Any]:
    """One row of the table; shares are of the first's requests and tokens."""
    found = differences(ones, others)
    gaps = [
        gap
        for it in found
        if (gap := logit_gap([*prompts[it.request], *ones[it.request][: it.position]], it.tokens))
        is not None
    ]
    tokens_before = sum(num_same(one, other) for one, other in zip(ones, others, strict=True))
    return {
        "requests": len(ones),
        "differ": len(found),
        "share_differ": round(len(found) / len(ones), 4),
        "tokens": sum(map(len, ones)),
        "share_before_difference": round(tokens_before / sum(map(len, ones)), 4),
        "first_differences_at": sorted(it.position for it in found),
        "median_logit_gap": round(sorted(gaps)[len(gaps) // 2], 5) if gaps else None,
        "max_logit_gap": round(max(gaps), 5) if gaps else None,
    }


def main() -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("--samples", type=int, default=20, help="tasks of each of the ten groups")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--no-save", action="store_true", help="print only")
    args = parser.parse_args()
    tasks, options = fresh_tasks(args.samples), dict(batch=args.batch, max_tokens=args.max_tokens)
    outputs = {
        (how, dtype): generate(tasks, dtype=dtype, spec=spec, **options)
        for dtype in ("bfloat16", "float32")
        for how, spec in (("speculative", SpecConfig()), ("plain", None))
    }
    prompts = prompts_of(tasks)
    rows = {}
    print(
        f"{'pair':<46}{'requests':>9}{'differ':>8}{'tokens before':>15}"
        f"{'median gap':>12}{'greatest':>10}"
    )
    for one, other in (
        (("speculative", "bfloat16"), ("plain", "bfloat16")),
        (("speculative", "bfloat16"), ("plain", "float32")),
        (("plain", "bfloat16"), ("plain", "float32")),
        (("speculative", "float32"), ("plain", "float32")),
    ):
        name = f"{' '.join(one)}, {' '.join(other)}"
        row = rows[name] = compare(outputs[one], outputs[other], prompts)
        print(
            f"{name:<46}{row['requests']:>9}{row['share_differ']:>8.1%}{row['share_before_difference']:>15.2%}"
            f"{row['median_logit_gap'] or 0:>12.4f}{row['max_logit_gap'] or 0:>10.4f}",
            flush=True,
        )
    emit(
        "equality",
        {**vars(args), "guided": sum(task.schema is not None for task in tasks)},
        rows,
        {"differ": 0},
        save=not args.no_save,
    )


if __name__ == "__main__":
    main()
