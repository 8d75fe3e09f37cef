"""Schemas that no value fits: the refusal says so, and what contradicts what."""

from __future__ import annotations

import re
from typing import Any

import pytest
from one_compiler import compiler_of

from specguide.bench.instances import BYTES
from specguide.config import GuideConfig
from specguide.errors import InvalidGuide, UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.compile import GrammarCompiler
from specguide.guided.tools import Tool, tool_guide
from specguide.guided.tools.formats import tool_formats

TWO_TYPES = {"allOf": [{"type": "string"}, {"type": "integer"}]}
TOO_SHORT = {"type": "string", "minLength": 2, "maxLength": 1}
TEXT_FIRST = {"prefixItems": [{"type": "string"}]}
CONTRADICTIONS = (
    (TOO_SHORT, ": minLength at /minLength (2) is greater than maxLength at /maxLength (1)"),
    (
        {"type": "number", "exclusiveMinimum": 2, "maximum": 2},
        ": exclusiveMinimum at /exclusiveMinimum (2) equals maximum at /maximum (2)",
    ),
    (
        {"type": "integer", "minimum": 1, "maximum": 6, "multipleOf": 7},
        ": no number fits minimum at /minimum and maximum at /maximum and multipleOf at "
        "/multipleOf",
    ),
    (
        {"type": "string", "pattern": "^a$", "minLength": 2},
        ": no string fits pattern at /pattern and minLength at /minLength",
    ),
    (
        {"type": "string", "format": "date", "maxLength": 3},
        ": no string fits format at /format and maxLength at /maxLength",
    ),
    (TWO_TYPES, ": type at /allOf/0/type and type at /allOf/1/type exclude each other"),
    (
        {
            "type": "object",
            "allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}],
            "additionalProperties": {"type": "integer"},
        },
        ": type at /additionalProperties/type and type at /allOf/0/properties/a/type exclude each "
        "other",
    ),
    (
        {
            "type": "object",
            "properties": {"x": {"$ref": "#/$defs/s"}},
            "required": ["x"],
            "$defs": {"s": TWO_TYPES},
        },
        ": type at /$defs/s/allOf/0/type and type at /$defs/s/allOf/1/type exclude each other",
    ),
    (
        {"type": "array", "minItems": 1, "allOf": [TEXT_FIRST, {"items": {"type": "integer"}}]},
        ": type at /allOf/0/prefixItems/0/type and type at /allOf/1/items/type exclude each other",
    ),
    ({"type": "array", "minItems": 1, "items": False}, ": the item at place 0 has no value"),
    (
        {"type": "object", "required": ["a"], "propertyNames": {"pattern": "^b"}},
        ": the required property 'a' has no value",
    ),
    ({"anyOf": [TOO_SHORT, TWO_TYPES]}, ""),
    (
        {
            "type": "array",
            "uniqueItems": True,
            "prefixItems": [{"type": "boolean"}] * 3,
            "items": False,
            "minItems": 3,
        },
        "",
    ),
    ({"type": "array", "contains": {"type": "string"}, "items": {"type": "integer"}}, ""),
)

compiler = compiler_of(BYTES)


@pytest.mark.parametrize(("schema", "why"), CONTRADICTIONS, ids=[why for _, why in CONTRADICTIONS])
def test_the_refusal_says_what_contradicts_what(
    compiler: GrammarCompiler, schema: Any, why: str
) -> None:
    said = f"no value that can be generated fits the schema{why}"
    with pytest.raises(UnsupportedGuide, match=f"^{re.escape(said)}$"):
        compiler.compile(Guide(json_schema=schema))


def test_other_processes_say_the_same(new_compiler):
    compiler = new_compiler(BYTES, isolate_compiles=True)
    with pytest.raises(UnsupportedGuide, match="fits the schema: minLength at /minLength"):
        compiler.compile(Guide(json_schema=TOO_SHORT))


def test_xgrammar_reads_no_lengths_the_wrong_way_round(new_compiler):
    compiler = new_compiler(BYTES, backend="xgrammar")
    with pytest.raises(UnsupportedGuide, match="no value that can be generated fits the schema"):
        compiler.compile(Guide(json_schema=TOO_SHORT))


@pytest.mark.parametrize("name", tool_formats())
def test_arguments_without_a_value_are_refused_in_words_of_schemas(
    compiler: GrammarCompiler, name: str
) -> None:
    parameters = {"type": "object", "properties": {"a": TOO_SHORT}, "required": ["a"]}
    guide = tool_guide(tool_formats()[name], [Tool("f", parameters)], lambda _: None, GuideConfig())
    with pytest.raises(InvalidGuide, match=r"minLength \(2\) is greater|'a' is unsatisfiable"):
        compiler.compile(guide)
