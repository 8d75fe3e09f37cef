"""Owns the data sets of the acceptance benchmark: prompts with the schema that the answer must match."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specguide.errors import InvalidParams


@dataclass(frozen=True)
class Task:
    """One prompt. schema: None where the answer is free; tools: as OpenAI's API has them, shown to the template"""

    name: str
    messages: tuple[Mapping[str, Any], ...]
    schema: Any = None
    tools: tuple[Mapping[str, Any], ...] = ()


def json_mode_eval(record: Mapping[str, Any]) -> Task | None:
    """NousResearch/json-mode-eval: `messages`, or on the hub `prompt`, and `schema`. The system message shows it."""
    messages = record.get("messages") or record.get("prompt")
    return Task(str(record.get("id", "")), tuple(messages), _parsed(record["schema"])) if messages else None


def jsonschemabench(record: Mapping[str, Any]) -> Task | None:
    """epfl-dlab/JSONSchemaBench: `schema`, or on the hub `json_schema`. It has no prompts: the model is to write out
    the first valid instance where there is one, else any."""
    schema = _parsed(record.get("schema", record.get("json_schema")))
    valid = next((test["data"] for test in record.get("tests", ()) if test["valid"]), None)
    text = "Write a JSON instance of the schema." if valid is None else (
        f"Write this as JSON of the schema: {json.dumps(valid, ensure_ascii=False)}")
    return Task(str(record.get("id", record.get("unique_id"))), ({"role": "user", "content": text},), schema)


def bfcl(record: Mapping[str, Any]) -> Task | None:
    """Berkeley Function-Calling Leaderboard: `question` and `tools`; the answer is one call, {"name", "arguments"}."""
    functions = [tool["function"] for tool in record["tools"]]
    calls = []
    for function in functions:
        properties = {"name": {"const": function["name"]}, "arguments": function["parameters"]}
        calls.append({"type": "object", "properties": properties, "required": list(properties),
                      "additionalProperties": False})
    return Task(str(record["id"]), tuple(record["question"]), calls[0] if len(calls) == 1 else {"anyOf": calls},
                tuple(record["tools"]))


def own(record: Mapping[str, Any]) -> Task | None:
    """Any other file: `messages`, and perhaps `schema` and `tools`."""
    return Task(str(record.get("id", "")), tuple(record["messages"]), record.get("schema"),
                tuple(record.get("tools") or ()))


READERS: dict[str, Callable[[Mapping[str, Any]], Task | None]] = {
    "json_mode_eval": json_mode_eval, "jsonschemabench": jsonschemabench, "bfcl": bfcl}
HUB = {"json_mode_eval": ("NousResearch/json-mode-eval", "train"),
       "jsonschemabench": ("epfl-dlab/JSONSchemaBench", "test")}


def load_tasks(name: str, folder: Path | None, limit: int) -> list[Task]:
    """At most `limit` tasks of a set, spread over all of it: from `folder`/NAME.jsonl, else from the Hugging Face hub.

    Raises InvalidParams where it is in neither place, or is not what its name says.
    """
    path = None if folder is None else folder / f"{name}.jsonl"
    if path is not None and path.exists():
        records: Iterable[Mapping[str, Any]] = _lines(path)
    elif name in HUB:
        records = _from_hub(*HUB[name])
    else:
        raise InvalidParams(f"there is no data set {name}: put {name}.jsonl into the folder that --data names",
                            param="sets")
    try:
        tasks = [task for record in records if (task := READERS.get(name, own)(record)) is not None]
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidParams(f"a record of {path or HUB[name][0]} is not what {name} has: {error!r}",
                            param="sets") from error
    if limit < 1 or not tasks:
        raise InvalidParams(f"{name} has {len(tasks)} tasks with a prompt, and {limit} are asked for: take 1 or more",
                            param="samples")
    if len({task.name for task in tasks}) < len(tasks):
        raise InvalidParams(f"two records of {name} have the same id, or none: each needs its own", param="sets")
    step = max(1, len(tasks) // limit)
    return tasks[::step][:limit]


def _lines(path: Path) -> Iterator[Mapping[str, Any]]:
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def _from_hub(repository: str, split: str) -> Iterable[Mapping[str, Any]]:
    try:
        from datasets import load_dataset
    except ModuleNotFoundError as error:
        raise InvalidParams(f"{repository} comes from the Hugging Face hub: pip install datasets, or give --data a "
                            "folder with the file", param="data") from error
    records: Iterable[Mapping[str, Any]] = load_dataset(repository, split=split)
    return records


def _parsed(schema: Any) -> Any:
    return json.loads(schema) if isinstance(schema, str) else schema
