"""Owns the samples from which requests are made: a built-in few, and records in the forms of
JSONSchemaBench and BFCL."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specguide.bench.data_sets import read_records
from specguide.errors import InvalidParams

KINDS = ("free", "json", "tools")
MARK = "request_id"
"""The property that holds a request's marker."""

_PLAIN = {
    "type",
    "properties",
    "required",
    "additionalProperties",
    "$schema",
    "$id",
    "id",
    "title",
    "description",
    "definitions",
    "$defs",
}
_FAR_REFERENCE = re.compile(r'"\$ref": "(?!#)')


@dataclass(frozen=True)
class Sample:
    """A conversation, and the JSON schema of its answer or the tools that may be called."""

    messages: Sequence[Mapping[str, Any]]
    schema: Mapping[str, Any] | None = None
    tools: Sequence[Mapping[str, Any]] = ()


def carries_marker(schema: Any) -> bool:
    """Whether a property can be added to a schema so that every instance has it and nothing else
    changes."""
    return (
        isinstance(schema, dict)
        and schema.get("type") == "object"
        and set(schema) <= _PLAIN
        and MARK not in schema.get("properties", {})
        and not _FAR_REFERENCE.search(json.dumps(schema))
    )


def marked(schema: Mapping[str, Any], marker: str) -> dict[str, Any]:
    """The schema with an additional first property that must be the marker."""
    own = {MARK: {"type": "string", "enum": [marker]}}
    return {
        **schema,
        "properties": {**own, **schema.get("properties", {})},
        "required": [MARK, *schema.get("required", ())],
    }


def built_in() -> dict[str, list[Sample]]:
    """A few of each kind."""
    free = [
        Sample(_said(f"{ask} {text}"))
        for text in _TEXTS
        for ask in ("Give a title:", "Say it in fewer words:")
    ]
    asked = [
        Sample(_said(text), schema=schema) for text, schema in zip(_TEXTS, _SCHEMAS, strict=True)
    ]
    calls = [Sample(_said(text), tools=_TOOLS) for text in _WISHES]
    return dict(zip(KINDS, (free, asked, calls), strict=True))


def read_schemas(path: Path) -> list[Sample]:
    """Samples of the records {"schema": …} whose schema can carry a marker. Raises
    InvalidParams."""

    def of(record: Mapping[str, Any]) -> Sample | None:
        return (
            Sample(_said(_EXAMPLE), schema=record["schema"])
            if carries_marker(record["schema"])
            else None
        )

    return _read(path, of)


def read_tool_tasks(path: Path) -> list[Sample]:
    """Samples of the records {"question": messages, "tools": […]} whose tools can carry a marker.
    Raises InvalidParams."""

    def of(record: Mapping[str, Any]) -> Sample | None:
        tools = record["tools"]
        usable = tools and all(carries_marker(tool["function"]["parameters"]) for tool in tools)
        return Sample(record["question"], tools=tools) if usable else None

    return _read(path, of)


def _read(path: Path, of: Callable[[Mapping[str, Any]], Sample | None]) -> list[Sample]:
    found = []
    for number, record in enumerate(read_records(path), 1):
        try:
            sample = of(record)
        except (KeyError, TypeError) as error:
            raise InvalidParams(
                f"{path}, line {number}: the record does not have the expected form: {error!r}"
            ) from error
        if sample is not None:
            found.append(sample)
    if not found:
        raise InvalidParams(
            f"{path} has no usable record: a marker can only be added to schemas that are plain "
            "objects"
        )
    return found


def _said(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _tool(name: str, description: str, **properties: Any) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": _object(**properties)},
    }


_WORD, _WORDS = {"type": "string", "maxLength": 24}, {"type": "string", "maxLength": 60}
_COUNT = {"type": "integer", "minimum": 0, "maximum": 100_000}
_EXAMPLE = "Give one short example that fits the schema."
_TEXTS = (
    "Ann Lee (41) is a baker from Leeds. Email: ann@lee.example",
    "The bridge in Riga was opened in 1932. It is 420 metres long and has 12 arches.",
    "Order 4711: 3 pears at 0.40 each and 2 loaves of bread at 2.10 each, to be delivered on "
    "Friday.",
    "The meeting with Jo and Kim is on 2024-03-05 at 10:30 in room 12. They want to speak about "
    "the budget.",
)
_SCHEMAS = (
    _object(name=_WORD, age=_COUNT, job=_WORD, email=_WORDS),
    _object(what=_WORD, city=_WORD, year=_COUNT, facts=_object(metres=_COUNT, arches=_COUNT)),
    _object(
        number=_COUNT,
        items={
            "type": "array",
            "minItems": 1,
            "maxItems": 3,
            "items": _object(article=_WORD, quantity=_COUNT),
        },
        day={"enum": ["Monday", "Friday"]},
    ),
    _object(
        people={"type": "array", "items": _WORD, "minItems": 1, "maxItems": 4},
        room=_COUNT,
        subject=_WORDS,
        is_online={"type": "boolean"},
    ),
)
_WISHES = (
    "What is the weather in Oslo?",
    "I want to get the time in Tokyo.",
    "Send Ann a message: the bread is ready.",
)
_TOOLS = (
    _tool(
        "get_weather", "The weather in a city", city=_WORD, unit={"enum": ["celsius", "fahrenheit"]}
    ),
    _tool("get_time", "The time in a city", city=_WORD),
    _tool("send_message", "Sends a person a message", to=_WORD, text=_WORDS),
)
