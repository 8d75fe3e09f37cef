"""The merging of what holds at once: the same instances, said in a form in which backends need to
merge nothing."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from lowered_schemas import INSTANCES, is_valid, lowered, plain, schemas
from one_compiler import compiler_of

from specguide.bench.instances import BYTES, draw, takes
from specguide.errors import InvalidGuide, UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.schema.core import evaluate
from specguide.guided.schema.core.nodes import CoreSchema
from specguide.guided.schema.merging.merge import MAX_SETS, merge
from specguide.guided.schema.pruning.prune import prune

compiler = compiler_of(BYTES)


def merged(core: CoreSchema) -> CoreSchema:
    return prune(merge(core))


def subschemas(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for child in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from subschemas(child)


@pytest.mark.parametrize("backend", ["llguidance", "xgrammar"])
@settings(max_examples=300)
@given(schema=schemas())
def test_merging_keeps_the_instances_and_leaves_nothing_to_merge(backend: str, schema: Any) -> None:
    try:
        core = lowered(schema, backend)
    except InvalidGuide:
        return
    instances = [instance for instance in INSTANCES if is_valid(plain(core), instance)]
    try:
        result = plain(merged(core))
    except UnsupportedGuide as error:
        assert not instances or "no value" not in str(error)
        return
    assert [instance for instance in INSTANCES if is_valid(result, instance)] == instances
    definitions = result.pop("$defs", {})
    for part in subschemas([result, *definitions.values()]):
        assert "allOf" not in part
        assert not part.keys() & {"anyOf", "$ref"} or len(part) == 1


@settings(max_examples=300)
@given(schema=schemas())
def test_values_are_told_as_jsonschema_tells_them(schema: Any) -> None:
    try:
        core = lowered(schema)
    except InvalidGuide:
        return
    for instance in INSTANCES:
        assert evaluate.takes(core.root, instance, core.definitions) == is_valid(
            plain(core), instance
        ), instance


USED_UP = (
    {"patternProperties": {"^[ab]$": {"type": "null"}}, "required": ["a", "b"]},
    {"properties": {"a": True, "b": True}, "patternProperties": {"^[ab]$": {"type": "null"}}},
    {"properties": {"a": {"type": "null"}, "b": False}, "patternProperties": {"^b$": True}},
    {
        "patternProperties": {"^[a-d]$": True},
        "required": ["a", "b", "d"],
        "minProperties": 3,
        "not": {"required": ["c"]},
    },
)


@pytest.mark.parametrize("schema", USED_UP, ids=lambda value: json.dumps(value)[:60])
def test_no_comma_comes_after_the_last_property_there_can_be(compiler, schema):
    schema = {"type": "object", "additionalProperties": False, **schema}
    grammar = compiler.compile(Guide(json_schema=schema))
    for seed in range(60):
        text = draw(grammar.matcher(), random.Random(seed))
        assert text is None or is_valid(schema, json.loads(text))


SERVED = (
    # (schema, texts it takes, texts it refuses): none of them is served without merging
    (
        {
            "properties": {"a": {"$ref": "#"}},
            "patternProperties": {"^.*$": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
            "type": "object",
        },
        ['{"a":{}}', '{"b":null}', '{"b":{"a":{"b":null}}}'],
        ['{"a":null}', '{"b":1}'],
    ),
    (
        {
            "type": "object",
            "patternProperties": {"a": {"type": "integer"}, "b": {"minimum": 5}},
            "additionalProperties": False,
        },
        ['{"ab":6}', '{"a":1,"b":6}', '{"b":"x"}'],
        ['{"ab":1}', '{"ab":"x"}', '{"c":1}'],
    ),
    (
        {
            "allOf": [
                {"enum": [{"a": 0}, {"a": 1}, 2]},
                {"not": {"properties": {"a": {"const": 1}}}},
            ]
        },
        ['{"a":0}'],
        ['{"a":1}'],
    ),
    (
        {
            "allOf": [{"pattern": "^a"}, {"pattern": "b$"}, {"not": {"pattern": "cc"}}],
            "type": "string",
        },
        ['"ab"', '"acb"'],
        ['"accb"', '"a"'],
    ),
    (
        {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"a": {"allOf": [{"type": "string"}, {"type": "null"}]}},
                    "required": ["a"],
                },
                {"type": "integer"},
            ]
        },
        ["1"],
        ['{"a":1}', '{"a":null}'],
    ),
    (
        {"type": "array", "items": {"enum": ["x", "y", "z"]}, "uniqueItems": True, "minItems": 2},
        ['["x","y"]', '["x","z"]', '["x","y","z"]'],
        ['["x"]', '["x","x"]', '["x","y","x"]'],
    ),
)


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"), SERVED, ids=lambda value: json.dumps(value)[:40]
)
def test_what_needs_merging_is_served(compiler, schema, valid, invalid):
    grammar = compiler.compile(Guide(json_schema=schema))
    assert [text for text in valid + invalid if is_valid(schema, json.loads(text))] == valid
    assert [text for text in valid + invalid if takes(grammar, text)] == valid


def test_a_schema_that_no_value_fits_says_so() -> None:
    schema = {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}}
    with pytest.raises(UnsupportedGuide, match="no value"):
        merged(lowered(schema))


def test_an_object_that_cannot_have_enough_names_has_no_instance() -> None:
    closed = {"type": "object", "additionalProperties": False, "minProperties": 3}
    few = {**closed, "patternProperties": {"^[ab]$": True}}
    with pytest.raises(InvalidGuide, match="no value"):
        lowered(few)
    few_of_both = {
        **closed,
        "patternProperties": {"^[ab]+$": True},
        "allOf": [{"additionalProperties": False, "patternProperties": {"^.$": True}}],
    }
    with pytest.raises(UnsupportedGuide, match="no value"):
        merged(lowered(few_of_both))


def test_too_many_combinations_are_refused() -> None:
    names = [f"p{i}" for i in range(14)]
    schema = {
        "allOf": [
            {
                "anyOf": [
                    {"properties": {name: {"type": "integer"}}},
                    {"properties": {name: {"minLength": 2}}},
                ]
            }
            for name in names
        ]
    }
    with pytest.raises(UnsupportedGuide, match=str(MAX_SETS)):
        merged(lowered(schema))
