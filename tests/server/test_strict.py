"""OpenAI's strict subset of JSON Schema: what it takes, and what it says of the rest."""

from __future__ import annotations

from typing import Any

import pytest

from specguide.errors import InvalidGuide
from specguide.server.tasks.strict import check_strict


def obj(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
        **more,
    }


def nested(depth: int) -> dict[str, Any]:
    return obj({"x": nested(depth - 1)}) if depth else obj({})


@pytest.mark.parametrize(
    "schema",
    [
        obj({}),
        nested(10),
        obj({"a": {"type": ["string", "null"], "format": "email"}, "b": {"enum": [1, 2]}}),
        obj(
            {
                "a": {
                    "type": "array",
                    "items": obj({"b": {"type": "integer", "minimum": 1}}),
                    "maxItems": 3,
                }
            }
        ),
        obj(
            {"a": {"$ref": "#/$defs/node"}},
            **{
                "$defs": {
                    "node": obj({"next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}})
                }
            },
        ),
        obj({"a": {"enum": [f"{number:04}" for number in range(1000)]}}),
    ],
)
def test_what_is_taken(schema):
    check_strict(schema, "response_format 'x'", "response_format")


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (
            {"type": "string"},
            "schema must be a JSON Schema of 'type: \"object\"', got 'type: \"string\"'.",
        ),
        ({"anyOf": [obj({})]}, "got 'type: \"None\"'"),
        (True, "got 'type: \"True\"'"),
        (
            {"type": "object", "properties": {}},
            "In context=(), 'additionalProperties' is required to be supplied and to be false.",
        ),
        (
            obj(
                {
                    "a": {
                        "type": "object",
                        "properties": {"b": {"type": "null"}},
                        "additionalProperties": False,
                    }
                }
            ),
            "In context=('properties', 'a'), 'required' is required to be supplied and to be an "
            "array including every key in "
            "properties. Missing 'b'.",
        ),
        (obj({"a": {"allOf": []}}), "In context=('properties', 'a'), 'allOf' is not permitted."),
        (
            obj({"a": {"type": "array", "items": {"type": "string", "oneOf": []}}}),
            "In context=('properties', 'a', 'items'), 'oneOf' is not permitted.",
        ),
        (obj({"a": {"type": "array"}}), "array schema missing items."),
        (obj({"a": {}}), "schema must have a 'type' key."),
        (obj({"a": 3}), "3 is not of type 'object'."),
        (obj({"a": {"type": "string", "format": "uri"}}), "'uri' is not a valid format."),
        (nested(11), "at most 10 levels of nesting in total, found 11"),
        (
            obj({f"p{number}": {"type": "null"} for number in range(5001)}),
            "at most 5000 properties",
        ),
        (obj({"a": {"enum": list(range(1001))}}), "at most 1000 enum values"),
        (
            obj({"a": {"enum": ["x" * 61 + str(number) for number in range(251)]}}),
            "at most 15000 characters",
        ),
        (obj({"a": {"const": "x" * 120_001}}), "at most 120000 characters"),
    ],
)
def test_what_is_refused(schema, words):
    with pytest.raises(InvalidGuide) as caught:
        check_strict(schema, "response_format 'x'", "response_format.json_schema.schema")
    assert str(caught.value).startswith(
        "Invalid schema for response_format 'x': "
    ) and words in str(caught.value)
    assert caught.value.param == "response_format.json_schema.schema"
