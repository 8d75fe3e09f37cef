"""Real-world JSON Schemas through the shipped model: every finished output must validate.

    SPECGUIDE_DATA=… python -m benchmarks.schemas --limit 600

Takes schemas of JSONSchemaBench in a fixed shuffled order, asks the model for an instance of each,
and validates what finished with `jsonschema`. Prints the counts by subset and every refusal's
reason, then one JSON line.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from typing import Any

from benchmarks.common import argument_parser, data_path, emit, read_jsonl
from specguide import LLM, Guide, GuideConfig, SamplingParams, SpecguideError
from specguide.bench.validation import violation
from specguide.errors import InvalidParams
from specguide.request import RequestOutput

PROMPT = "Give one short example that fits the schema."
MAX_PROMPT_LEN = 1024
RESULTS = ("valid", "truncated", "unfit", "refused", "unjudged", "failed", "invalid")


def prompt(llm: LLM, schema: Any) -> list[int]:
    """The chat prompt, with the schema where it is not too long to show."""
    messages = [{"role": "user", "content": PROMPT}]
    shown = llm.tokenizer.apply_chat_template(messages, json_schema=json.dumps(schema))
    return shown if len(shown) < MAX_PROMPT_LEN else llm.tokenizer.apply_chat_template(messages)


def answers(llm: LLM, schemas: list[Any], max_tokens: int) -> list[RequestOutput | SpecguideError]:
    """One output per schema, or the error with which its guide was refused, in order."""
    guides = [_guide(schema) for schema in schemas]
    params = [
        SamplingParams(max_tokens=max_tokens, guide=guide)
        for guide in guides
        if isinstance(guide, Guide)
    ]
    prompts = [
        prompt(llm, schema)
        for schema, guide in zip(schemas, guides, strict=True)
        if isinstance(guide, Guide)
    ]
    outputs = iter(llm.generate(prompts, params))
    return [next(outputs) if isinstance(guide, Guide) else guide for guide in guides]


def _guide(schema: Any) -> Guide | SpecguideError:
    try:
        return Guide(json_schema=schema)
    except SpecguideError as error:
        return error


def verdict(schema: Any, output: RequestOutput | SpecguideError) -> tuple[str, str]:
    """What became of a schema, one of RESULTS, and why.

    unfit:    its shortest instance takes more than max_tokens
    unjudged: jsonschema cannot tell whether the output is valid
    """
    if isinstance(output, SpecguideError):
        return "refused", str(output)
    if isinstance(output.error, InvalidParams) and output.error.param == "max_tokens":
        return "unfit", str(output.error)
    if output.error is not None:
        return ("refused" if output.metrics.output_tokens == 0 else "failed"), str(output.error)
    if output.finish_reason == "length":
        return "truncated", ""
    try:
        reason = violation(schema, output.text)
    except LookupError as error:
        return "unjudged", str(error)
    return ("valid", "") if reason is None else ("invalid", f"{reason}: {output.text[:200]}")


def main() -> None:
    """Run the benchmark; exits with 1 when an output is invalid or a request failed."""
    parser = argument_parser(__doc__)
    parser.add_argument("--limit", type=int, default=600)
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--verbose", action="store_true", help="print every refusal's reason")
    args = parser.parse_args()
    records = list(read_jsonl(data_path("jsonschemabench.jsonl")))
    random.Random(0).shuffle(records)
    records = records[: args.limit]
    llm = LLM(guide=GuideConfig(compile_timeout_s=10), max_batch_size=args.batch)
    counts: Counter[str] = Counter()
    start = time.perf_counter()
    for first in range(0, len(records), 4 * args.batch):
        group = records[first : first + 4 * args.batch]
        outputs = answers(llm, [record["schema"] for record in group], args.max_tokens)
        for record, output in zip(group, outputs, strict=True):
            result, reason = verdict(record["schema"], output)
            counts[result] += 1
            if args.verbose or result in ("invalid", "failed"):
                print(f"{record['id']}: {result} {reason[:300]}", flush=True)
    stats = llm.stats()
    llm.close()
    print("\n".join(f"{name:10} {counts[name]:5}" for name in RESULTS))
    emit(
        "schemas",
        config=vars(args),
        result={
            **counts,
            "compiled": len(records) - counts["refused"],
            "seconds": time.perf_counter() - start,
            **{key: value for key, value in stats.as_dict().items() if key != "grammar"},
        },
    )
    raise SystemExit(1 if counts["invalid"] or counts["failed"] else 0)


if __name__ == "__main__":
    main()
