"""What the server does to schemas of requests: `strict` as OpenAI has it, closed objects, and older
structural tags."""

from __future__ import annotations

import json
from typing import Any

import pytest

from specguide.errors import InvalidGuide, InvalidParams
from specguide.server.bodies.requests import ChatRequest, TextFormat
from specguide.server.bodies.shared_fields import ResponseFormat
from specguide.server.config import ServerConfig
from specguide.server.tasks.guides import (
    closed_guide,
    guide_of,
    response_format_guide,
    schema_rules,
    text_format_guide,
)
from specguide.server.tasks.schemas import AS_THEY_ARE, SchemaRules
from specguide.server.tasks.tools import tools_of

LOOSE = {"type": "object", "properties": {"a": {"type": "string"}}}
CLOSED = {**LOOSE, "additionalProperties": False}
STRICT = SchemaRules(openai_strict=True)
CLOSING = SchemaRules(is_closed=True)
FORMAT = {"name": "p", "strict": True, "schema": LOOSE}


def of_chat(rules: SchemaRules) -> Any:
    asked = ResponseFormat.model_validate({"type": "json_schema", "json_schema": FORMAT})
    guide = closed_guide(response_format_guide(asked, rules), rules)
    return guide and json.loads(guide.source())


def of_responses(rules: SchemaRules) -> Any:
    asked = TextFormat.model_validate({"type": "json_schema", **FORMAT})
    guide = closed_guide(text_format_guide(asked, rules), rules)
    return guide and json.loads(guide.source())


def of_tools(rules: SchemaRules) -> Any:
    [tool] = tools_of([{"name": "p", "strict": True, "parameters": LOOSE}], rules)
    return tool.parameters


@pytest.mark.parametrize("schema_of", [of_chat, of_responses, of_tools])
def test_strict_and_closed(schema_of: Any) -> None:
    """strict alone refuses nothing: what a grammar can enforce is always enforced."""
    assert schema_of(AS_THEY_ARE) == LOOSE and schema_of(CLOSING) == CLOSED
    with pytest.raises(InvalidGuide, match=r"Invalid schema for .*'p'"):
        schema_of(STRICT)


@pytest.mark.parametrize(
    ("schema", "closed"),
    [
        (LOOSE, CLOSED),
        ({**LOOSE, "additionalProperties": True}, {**LOOSE, "additionalProperties": True}),
        ({**LOOSE, "unevaluatedProperties": False}, {**LOOSE, "unevaluatedProperties": False}),
        ({"type": "object"}, {"type": "object"}),
        ({"items": LOOSE}, {"items": CLOSED}),
        ({"prefixItems": [LOOSE, True]}, {"prefixItems": [CLOSED, True]}),
        (
            {"$defs": {"x": LOOSE}, "$ref": "#/$defs/x"},
            {"$defs": {"x": CLOSED}, "$ref": "#/$defs/x"},
        ),
        ({"anyOf": [LOOSE, {"type": "null"}]}, {"anyOf": [CLOSED, {"type": "null"}]}),
        ({"allOf": [LOOSE, LOOSE]}, {"allOf": [LOOSE, LOOSE]}),
        ({**LOOSE, "anyOf": [LOOSE]}, {**LOOSE, "anyOf": [LOOSE]}),
        (
            {"properties": {"properties": LOOSE}},
            {"properties": {"properties": CLOSED}, "additionalProperties": False},
        ),
        ({"enum": [LOOSE]}, {"enum": [LOOSE]}),
        ({"properties": 3, "anyOf": 3}, {"properties": 3, "anyOf": 3}),
        (True, True),
    ],
)
def test_objects_are_closed_where_that_contradicts_nothing(schema: Any, closed: Any) -> None:
    assert CLOSING.closed(schema) == closed and AS_THEY_ARE.closed(schema) is schema


def guided(**fields: Any) -> Any:
    body = ChatRequest.model_validate({"messages": [], **fields})
    rules = schema_rules(ServerConfig("m"), body)
    asked = response_format_guide(body.response_format, rules)
    return closed_guide(guide_of(body, rules, {"response_format": asked}), rules)


def test_a_request_says_itself_whether_objects_are_closed() -> None:
    asked = {"json": LOOSE, "disable_additional_properties": True}
    assert json.loads(guided(structured_outputs=asked).source()) == CLOSED
    of_format = guided(
        response_format={"type": "json_schema", "json_schema": {"schema": LOOSE}},
        structured_outputs={"disable_additional_properties": True},
    )
    assert json.loads(of_format.source()) == CLOSED
    rules = schema_rules(
        ServerConfig("m", closed_objects=True),
        ChatRequest.model_validate(
            {"messages": [], "structured_outputs": {"disable_additional_properties": False}}
        ),
    )
    assert rules.closed(LOOSE) == LOOSE


def test_a_request_says_in_which_order_keys_come() -> None:
    closed = {"json": LOOSE, "disable_additional_properties": True}
    assert guided(guided_json=LOOSE).key_order is None
    for fields in ({"guided_json": LOOSE}, {"structured_outputs": closed}, {"regex": "a"}):
        assert guided(**fields, key_order="any").key_order == "any"
    assert guided(key_order="any") is None
    with pytest.raises(ValueError, match="'schema' or 'any'"):
        guided(guided_json=LOOSE, key_order="random")


def test_guides_as_sglang_has_them() -> None:
    assert guided(regex="a+").regex == "a+"
    assert guided(ebnf='root ::= "a"').grammar == 'root ::= "a"'
    assert json.loads(guided(json_schema=json.dumps(LOOSE)).source()) == LOOSE
    with pytest.raises(InvalidParams, match="regex and ebnf each constrain"):
        guided(regex="a", ebnf='root ::= "a"')


@pytest.mark.parametrize(
    ("said", "found"), [({}, "none"), ({"choices": ["a"], "jsn": {}}, "choices, jsn")]
)
def test_structured_outputs_that_say_nothing(said: Any, found: str) -> None:
    with pytest.raises(InvalidParams, match=f"one of json, .*, structural_tag; found {found}$"):
        guided(structured_outputs=said)


STRUCTURES = {
    "structures": [{"begin": "<f>", "schema": LOOSE, "end": "</f>"}],
    "triggers": ["<f"],
}


@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": {"type": "structural_tag", **STRUCTURES}},
        {"structured_outputs": {"structural_tag": {"type": "structural_tag", **STRUCTURES}}},
        {"structured_outputs": {"structural_tag": json.dumps(STRUCTURES)}},
    ],
)
def test_older_structural_tags(fields: Any) -> None:
    made = json.loads(guided(**fields).source())
    [tag] = made["format"]["tags"]
    assert made["format"]["triggers"] == ["<f"] and tag["content"]["json_schema"] == LOOSE


@pytest.mark.parametrize(
    "fields",
    [
        {"response_format": {"type": "structural_tag", **STRUCTURES, "at_least_one": True}},
        {"structured_outputs": {"structural_tag": {**STRUCTURES, "at_least_one": True}}},
    ],
)
def test_an_older_structural_tag_that_must_be_there(fields: Any) -> None:
    assert json.loads(guided(**fields).source())["format"]["at_least_one"] is True


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"triggers": None}, "response_format.triggers"),
        ({"structures": [{"begin": "<f>"}]}, "response_format.structures[0].end"),
    ],
)
def test_structural_tags_that_lack_something(change: Any, param: str) -> None:
    with pytest.raises(InvalidParams) as caught:
        guided(response_format={"type": "structural_tag", **STRUCTURES, **change})
    assert caught.value.param == param
