"""Owns Task, what one record of a data set asks: the prompt, and the schema that the answer must
match."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any

from specguide.bench.rightness import Accepted
from specguide.guide import Guide
from specguide.guided.schema.document.closed import closed

_BFCL_TYPES = {"dict": "object", "float": "number", "tuple": "array"}


@dataclass(frozen=True)
class Task:
    """One prompt.

    schema: None if the answer is free
    tools:  in the form of OpenAI's API, shown to the template
    right:  the only right call; None if the set does not say, or wants several
    is_closed: whether the guide lets objects have only properties that the schema names
    """

    name: str
    messages: tuple[Mapping[str, Any], ...]
    schema: Any = None
    tools: tuple[Mapping[str, Any], ...] = ()
    right: Accepted | None = None
    is_closed: bool = False

    @property
    def num_chars(self) -> int:
        """Characters of everything that a prompt may show."""
        return len(json.dumps([self.messages, self.schema, self.tools]))

    @property
    def guide(self) -> Guide | None:
        """The guide that its answer must match; None if it is free."""
        if self.schema is None:
            return None
        return Guide(json_schema=closed(self.schema) if self.is_closed else self.schema)


def digest(tasks: Sequence[Task]) -> str:
    """A hash of everything that these tasks ask."""
    text = json.dumps([asdict(task) for task in tasks], default=str)
    return blake2b(text.encode(), digest_size=8).hexdigest()


def task_of(record: Mapping[str, Any], number: int) -> Task | None:
    """The task of a record, whose form is recognised by its columns; None if it asks nothing.

    number: its place in the data set, which is its name if "id" is missing or null

    Raises KeyError, TypeError and ValueError for a record of an unknown form.
    """
    stated = (record.get("id"), record.get("unique_id"), number)
    name = str(next(one for one in stated if one is not None))
    if "question" in record:
        return _tool_call(name, record)
    if "messages" in record or "prompt" in record:
        return _conversation(name, record)
    return _schema_alone(name, record)


def _conversation(name: str, record: Mapping[str, Any]) -> Task | None:
    """`messages`, optionally with `schema` and `tools`; JSON Mode Eval on the hub calls its
    messages `prompt`."""
    messages = record.get("messages") or record.get("prompt")
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    if not messages:
        return None
    schema, tools = parsed(record.get("schema")), _mappings("tools", record.get("tools") or ())
    return Task(name, _mappings("messages", messages), schema, tools)


def _schema_alone(name: str, record: Mapping[str, Any]) -> Task:
    """JSONSchemaBench: `schema`, or on the hub `json_schema`. It has no prompts, so the model is
    asked to write the first valid instance, or any instance if none is known."""
    schema = parsed(record["schema"] if "schema" in record else record["json_schema"])
    valid = next((test["data"] for test in record.get("tests") or () if test["valid"]), None)
    text = (
        "Write a JSON instance of the schema."
        if valid is None
        else (f"Write this as JSON of the schema: {json.dumps(valid, ensure_ascii=False)}")
    )
    return Task(name, ({"role": "user", "content": text},), schema)


def _tool_call(name: str, record: Mapping[str, Any]) -> Task | None:
    """Berkeley Function-Calling Leaderboard: `question` and `tools`, or in the published form turns
    of questions and `function`. The answer is one call, {"name", "arguments"}, in the first
    turn."""
    question = record["question"]
    messages = question[0] if question and isinstance(question[0], Sequence) else question
    if not messages:
        return None
    functions = (
        [tool["function"] for tool in record["tools"]]
        if "tools" in record
        else [
            {**function, "parameters": _json_schema(function["parameters"])}
            for function in record["function"]
        ]
    )
    calls = [
        {
            "type": "object",
            "properties": {"name": {"const": one["name"]}, "arguments": one["parameters"]},
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for one in functions
    ]
    return Task(
        name,
        _mappings("messages", messages),
        calls[0] if len(calls) == 1 else {"anyOf": calls},
        tuple({"type": "function", "function": one} for one in functions),
        _only(record.get("answer")),
    )


def _mappings(name: str, values: Iterable[Any]) -> tuple[Mapping[str, Any], ...]:
    found = tuple(values)
    if not all(isinstance(value, Mapping) for value in found):
        raise TypeError(f"{name} must be a list of objects")
    return found


def _only(answer: Any) -> Accepted | None:
    return answer[0] if isinstance(answer, list) and len(answer) == 1 else None


def _json_schema(published: Any) -> Any:
    """The leaderboard names types as Python does; "any" means that the type is left out."""
    if isinstance(published, list):
        return [_json_schema(item) for item in published]
    if not isinstance(published, Mapping):
        return published
    schema = {key: _json_schema(value) for key, value in published.items()}
    if isinstance(kind := published.get("type"), str):
        schema["type"] = _BFCL_TYPES.get(kind, kind)
        if kind == "any":
            del schema["type"]
    return schema


def parsed(value: Any) -> Any:
    """A value that a data set may also have as JSON text."""
    return json.loads(value) if isinstance(value, str) else value
