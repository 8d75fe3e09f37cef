"""Which properties are unevaluated may hang on which subschemas hold."""

from __future__ import annotations

import json
import random
from itertools import product
from typing import Any

import jsonschema
import pytest

from specguide.bench.conformance import BackendCompiler
from specguide.bench.instances import takes_in_some_order
from specguide.errors import UnsupportedGuide

PARTS: tuple[dict[str, Any], ...] = (
    {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
    {"properties": {"b": True}},
    {"patternProperties": {"^c": {"type": "integer"}}},
    {"required": ["a"], "additionalProperties": True},
    {"required": ["b"], "unevaluatedProperties": {"type": "integer"}},
)
OBJECTS = [
    {name: value for name, value in zip("abcd", values, strict=True) if value is not None}
    for values in product((None, 1, "x"), repeat=4)
]


def _schema(rng: random.Random) -> dict[str, Any]:
    one, two, three = rng.sample(PARTS, 3)
    beside = rng.choice(
        (
            {"anyOf": [one, two]},
            {"oneOf": [one, two, three]},
            {"if": one, "then": two, "else": three},
            {"if": one},
            {"allOf": [one, {"anyOf": [two, three]}]},
            {"dependentSchemas": {"a": one, "b": two}},
            {"not": one, "$ref": "#/$defs/two", "$defs": {"two": {"oneOf": [two, three]}}},
        )
    )
    return {"type": "object", **beside, "unevaluatedProperties": rng.choice((False, PARTS[0]))}


@pytest.fixture(scope="module")
def compiler():
    made = BackendCompiler("auto")
    yield made
    made.close()


def check_that_what_is_taken_is_valid(compiler, schema):
    judge = jsonschema.Draft202012Validator(schema)
    try:
        grammar = compiler.compile(schema)
    except UnsupportedGuide:
        return
    for value in OBJECTS:
        if takes_in_some_order(grammar, value, schema):
            assert judge.is_valid(value), (json.dumps(schema), value)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_taken_is_valid(compiler, seed):
    check_that_what_is_taken_is_valid(compiler, _schema(random.Random(seed)))


def test_the_ways_of_a_choice_are_all_taken(compiler):
    schema = {
        "properties": {"a": True},
        "anyOf": [{"properties": {"b": {"const": 1}}, "required": ["b"]}, True],
        "unevaluatedProperties": False,
    }
    grammar = compiler.compile(schema)
    for value in ({}, {"a": 1}, {"b": 1}, {"a": 1, "b": 1}):
        assert takes_in_some_order(grammar, value, schema), value
    for value in ({"b": 2}, {"c": 1}):
        assert not takes_in_some_order(grammar, value, schema), value


def test_arrays_have_no_dependent_schemas(compiler):
    schema = {"dependentSchemas": {"a": {"items": True}}, "unevaluatedItems": False}
    grammar = compiler.compile(schema)
    for value in ([], {"a": [1]}, 1):
        assert takes_in_some_order(grammar, value, schema), value
    assert not takes_in_some_order(grammar, [1], schema)


def test_no_choice_hangs_on_what_is_evaluated_anyway(compiler):
    names = ("query", "path", "header", "cookie", "body")
    asked = {
        "query": {"more": {"type": "boolean"}, "style": {"enum": ["form", "deep"]}},
        **{name: {"style": {"const": name}} for name in names[1:]},
    }
    schema = {
        "properties": {"in": {"enum": names}, "style": {"type": "string"}},
        "required": ["in"],
        "allOf": [
            {
                "if": {"properties": {"in": {"const": name}}},
                "then": {"properties": properties},
                "else": {"properties": {"in": True}},
            }
            for name, properties in asked.items()
        ],
        "unevaluatedProperties": False,
    }
    grammar, judge = compiler.compile(schema), jsonschema.Draft202012Validator(schema)
    styles = (None, "form", "path", "body")
    for name, style, more in product((*names, "x"), styles, (None, True, 1)):
        value = {"in": name, "style": style, "more": more}
        value = {key: one for key, one in value.items() if one is not None}
        taken = takes_in_some_order(grammar, value, schema)
        assert taken == judge.is_valid(value), value


@pytest.mark.parametrize("seed", range(20))
def test_what_is_taken_beside_properties_is_valid(compiler, seed):
    rng = random.Random(seed)
    schema = {**_schema(rng), "properties": {name: True for name in rng.sample("abd", 2)}}
    check_that_what_is_taken_is_valid(compiler, schema)
