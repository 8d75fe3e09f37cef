"""Field accuracy on fresh samples: known kinds, and kinds and schemas left out of training.

    python -m training.evaluate.fields specguide/assets/small/target --samples 200

A field is one scalar of the expected answer (array elements count one by one); it is right if the
answer has the same value at the same place. The command generates greedily and unguided with
transformers; `evaluate` takes any callable, so that a guided engine is measured on the same
samples.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tqdm import tqdm

from training.counts import one_or_more
from training.data import chat
from training.data.groups import SAMPLERS, samples_of

Generate = Callable[[list[chat.Task]], list[str]]
MISSING = object()


@dataclass(frozen=True, slots=True)
class Miss:
    """One wrong field: where, what was expected, and what came."""

    kind: str
    path: str
    expected: object
    got: object
    task: chat.Task


@dataclass(frozen=True, slots=True)
class Score:
    """Counts over the samples of one group."""

    samples: int
    whole_right: int
    fields: int
    fields_right: int
    unparsed: int
    misses: tuple[Miss, ...]

    @property
    def accuracy(self) -> float:
        return self.fields_right / max(1, self.fields)


def scalars(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(path, scalar) for every scalar inside a JSON value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from scalars(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from scalars(inner, f"{path}[{index}]")
    else:
        yield path, value


def same(expected: Any, got: Any) -> bool:
    """Equal values of equal type; 3 and 3.0 are the same number, True and 1 are not."""
    if isinstance(expected, bool) or isinstance(got, bool):
        return expected is got
    return bool(expected == got)


def parse(text: str) -> Any:
    """The JSON value of an answer or of the first tool call in it; MISSING where it is neither."""
    body = text.strip()
    if body.startswith(chat.CALL_START):
        body = body[len(chat.CALL_START) :].split(chat.CALL_END)[0]
    try:
        return json.loads(body)
    except ValueError:
        return MISSING


def score(samples: list[chat.Task], texts: list[str]) -> Score:
    """Counts right fields; an answer that is free text counts as one field, right if equal."""
    whole = fields = right = unparsed = 0
    misses: list[Miss] = []
    for task, text in zip(samples, texts, strict=True):
        expected, got = parse(task.answer), parse(text)
        if expected is MISSING:
            pairs = [("", task.answer)]
            found = {"": text.strip()}
        else:
            unparsed += got is MISSING
            pairs = list(scalars(expected))
            found = {} if got is MISSING else dict(scalars(got))
        wrong = [
            Miss(task.kind, path, value, found.get(path), task)
            for path, value in pairs
            if not same(value, found.get(path, MISSING))
        ]
        misses += wrong
        fields += len(pairs)
        right += len(pairs) - len(wrong)
        whole += not wrong
    return Score(len(samples), whole, fields, right, unparsed, tuple(misses))


def evaluate(generate: Generate, seed: int, count: int, groups: list[str]) -> dict[str, Score]:
    """Scores by group. `generate` takes tasks (prompt, schema and tools in them) and returns the
    answers' texts."""
    results = {}
    for group in tqdm(groups, desc="groups"):
        samples = samples_of(group, seed, count)
        results[group] = score(samples, generate(samples))
    return results


def transformers_generate(folder: Path, batch_size: int = 200, max_tokens: int = 400) -> Generate:
    """Greedy, unguided generation by transformers on the best device there is."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left", trust_remote_code=False)
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, trust_remote_code=False
    ).eval()
    model.to(device)  # type: ignore[arg-type]

    def generate(samples: list[chat.Task]) -> list[str]:
        texts: list[str] = []
        for start in range(0, len(samples), batch_size):
            prompts = [chat.render_prompt(task) for task in samples[start : start + batch_size]]
            inputs = tokenizer(
                prompts, return_tensors="pt", padding=True, add_special_tokens=False
            ).to(device)
            inputs.pop("token_type_ids", None)
            with torch.inference_mode():
                out = model.generate(**inputs, max_new_tokens=max_tokens, do_sample=False)
            texts += tokenizer.batch_decode(
                out[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True
            )
        return texts

    return generate


def table(results: dict[str, Score]) -> str:
    lines = [f"{'group':26} {'samples':>8} {'fields':>7} {'right':>7} {'whole':>7} {'unparsed':>8}"]
    for name, s in results.items():
        lines.append(
            f"{name:26} {s.samples:8} {s.fields:7} {s.accuracy:7.1%} "
            f"{s.whole_right / s.samples:7.1%} {s.unparsed:8}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Field accuracy of a model folder on fresh samples."
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--samples", type=one_or_more, default=200)
    parser.add_argument("--seed", type=int, default=12345)
    parser.add_argument("--groups", nargs="*", default=list(SAMPLERS))
    parser.add_argument(
        "--misses", type=Path, default=None, help="write the wrong fields to this file"
    )
    args = parser.parse_args()
    results = evaluate(transformers_generate(args.model), args.seed, args.samples, args.groups)
    print(table(results))
    if args.misses:
        with args.misses.open("w") as out:
            for group, result in results.items():
                for miss in result.misses:
                    shown = {
                        "group": group,
                        "kind": miss.kind,
                        "path": miss.path,
                        "expected": miss.expected,
                        "got": miss.got,
                        "text": miss.task.text,
                        "schema": miss.task.schema,
                    }
                    out.write(json.dumps(shown, ensure_ascii=False) + "\n")
    print(
        json.dumps(
            {
                name: {"accuracy": round(s.accuracy, 4), "fields": s.fields}
                for name, s in results.items()
            }
        )
    )


if __name__ == "__main__":
    main()
