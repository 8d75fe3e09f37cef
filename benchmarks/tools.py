"""Tool calls over the API: function-calling tasks of BFCL, answered by the shipped model, each
judged by jsonschema.

    SPECGUIDE_DATA=… python -m benchmarks.tools [--tasks 300] [--concurrency 8]

Simple, multiple and parallel tasks in turn, each with tool_choice auto, required and named,
streamed and not, through the HTTP application in this process. Every call must name a given tool
and have arguments of its schema; the same request streamed must give the same calls (in float32: in
bfloat16 an answer depends on who is in the batch). Accuracy, against the accepted answers, is the
model's, and is only reported. Prints a table, then one JSON line; exits with 1 where a call is
wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from itertools import zip_longest
from typing import Any

import httpx
import jsonschema
from tqdm import tqdm

from benchmarks.common import argument_parser, data_path, emit, read_jsonl
from specguide.config import EngineConfig, SpecConfig
from specguide.engine import AsyncEngine, Engine
from specguide.server.app import create_app
from specguide.server.config import ServerConfig

Call = tuple[str, str]
CATEGORIES = ("simple", "multiple", "parallel")
CHOICES = ("auto", "required", "named")


def tasks(number: int) -> list[dict[str, Any]]:
    """Tasks from each category in turn."""
    records = [record for record in read_jsonl(data_path("bfcl.jsonl")) if record["answer"]]
    by_category = [
        [r for r in records if r["category"].startswith(category)] for category in CATEGORIES
    ]
    return [record for row in zip_longest(*by_category) for record in row if record is not None][
        :number
    ]


def body(task: dict[str, Any], choice: str, *, stream: bool) -> dict[str, Any]:
    """A greedy request. The tool that is named is the accepted answer's first."""
    named = {"type": "function", "function": {"name": next(iter(task["answer"][0]))}}
    return {
        "model": "small",
        "messages": task["question"],
        "tools": task["tools"],
        "temperature": 0,
        "stream": stream,
        "tool_choice": named if choice == "named" else choice,
        "max_completion_tokens": 300,
    }


async def calls_of(client: httpx.AsyncClient, asked: dict[str, Any]) -> tuple[list[Call], str]:
    """The calls of an answer, and how it ended: a finish_reason or the error's message."""
    answer = await client.post("/v1/chat/completions", json=asked)
    if answer.status_code != 200:
        return [], f"{answer.status_code}: {answer.json()['error']['message']}"
    if not asked["stream"]:
        choice = answer.json()["choices"][0]
        return [
            (call["function"]["name"], call["function"]["arguments"])
            for call in choice["message"].get("tool_calls", ())
        ], choice["finish_reason"]
    calls: list[list[str]] = []
    reason = ""
    for line in answer.text.split("\n\n"):
        chunk = json.loads(line.removeprefix("data: ")) if line.startswith("data: {") else {}
        for choice in chunk.get("choices", ()):
            reason = choice["finish_reason"] or reason
            for part in choice["delta"].get("tool_calls", ()):
                if "id" in part:
                    calls.append([part["function"]["name"], ""])
                calls[part["index"]][1] += part["function"]["arguments"]
    return [(name, arguments) for name, arguments in calls], reason


def faults(task: dict[str, Any], choice: str, calls: list[Call], reason: str) -> list[str]:
    """What is wrong with complete calls; those of an answer that was cut may be cut too."""
    schemas = {tool["function"]["name"]: tool["function"]["parameters"] for tool in task["tools"]}
    found = [] if calls or choice == "auto" or reason == "length" else ["there is no call"]
    for index, (name, arguments) in enumerate(calls):
        if reason == "length" and index == len(calls) - 1:
            continue
        try:
            jsonschema.validate(json.loads(arguments), schemas[name])
        except (KeyError, ValueError, jsonschema.ValidationError) as error:
            found.append(f"{name}({arguments}): {str(error).splitlines()[0]}")
    return found


def is_right(task: dict[str, Any], calls: list[Call]) -> bool:
    """Whether the calls are the accepted ones, in any order."""

    def matches(accepted: dict[str, Any], call: Call) -> bool:
        ((name, values),) = accepted.items()
        arguments = json.loads(call[1])
        return (
            name == call[0]
            and set(arguments) <= set(values)
            and all(
                arguments[key] in value if key in arguments else "" in value
                for key, value in values.items()
            )
        )

    left = list(task["answer"])
    for call in calls:
        found = next((accepted for accepted in left if matches(accepted, call)), None)
        if found is None:
            return False
        left.remove(found)
    return not left


async def run(args: argparse.Namespace) -> tuple[list[dict[str, Any]], list[str]]:
    """A row for each tool_choice, and what was wrong."""
    engine = AsyncEngine(
        Engine(EngineConfig(spec=SpecConfig(), max_batch_size=args.concurrency, dtype="float32"))
    )
    app, gate = create_app(engine, ServerConfig("small")), asyncio.Semaphore(args.concurrency)
    rows = {choice: Counter[str]() for choice in CHOICES}
    wrong: list[str] = []
    progress = tqdm(total=args.tasks * len(CHOICES) * 2, unit="request")

    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://here", timeout=600
    ) as client:

        async def one(task: dict[str, Any], choice: str) -> None:
            answers = []
            for stream in (False, True):
                async with gate:
                    answers.append(await calls_of(client, body(task, choice, stream=stream)))
                progress.update()
            (calls, reason), streamed = answers
            row = rows[choice]
            found = faults(task, choice, calls, reason)
            if streamed != (calls, reason):
                found.append(
                    f"streamed it is another answer: {streamed} instead of {calls, reason}"
                )
            wrong.extend(f"{task['id']}, {choice}: {fault}" for fault in found)
            refused = reason[:1].isdigit()
            row.update(
                requests=2,
                calls=len(calls),
                wrong=len(found),
                refused=refused,
                cut=reason == "length",
                right=reason != "length" and bool(calls) and is_right(task, calls),
            )

        await asyncio.gather(
            *(one(task, choice) for task in tasks(args.tasks) for choice in CHOICES)
        )
    progress.close()
    await engine.close()
    return [{"tool_choice": choice, **rows[choice]} for choice in CHOICES], wrong


def main() -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("--tasks", type=int, default=300)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    begin = time.perf_counter()
    rows, wrong = asyncio.run(run(args))
    for row in rows:
        print(row)
    for fault in wrong[:20]:
        print(fault, file=sys.stderr)
    emit(
        "tools",
        {**vars(args), "seconds": round(time.perf_counter() - begin)},
        rows,
        save=not args.no_save,
    )
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
