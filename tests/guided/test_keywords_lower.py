"""The rewriting of schemas into the core: every instance of the core is one of the original, and
few are lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from lowered_schemas import INSTANCES, is_valid, lowered, plain, schemas

from specguide.errors import GuideLimitExceeded, InvalidGuide, UnsupportedGuide
from specguide.guided.backends import backend_spec
from specguide.guided.backends.llguidance.capabilities import LLGUIDANCE
from specguide.guided.budget import Budget
from specguide.guided.schema.core.enforce import unenforced
from specguide.guided.schema.cores import core_schemas

DRAFT_7 = "http://json-schema.org/draft-07/schema#"


@pytest.mark.parametrize("backend", ["llguidance", "xgrammar"])
@settings(max_examples=400)
@given(schema=schemas())
def test_every_instance_of_the_core_is_one_of_the_schema(backend: str, schema: Any) -> None:
    try:
        core = plain(lowered(schema, backend))
    except InvalidGuide:
        return
    for instance in INSTANCES:
        assert not is_valid(core, instance) or is_valid(schema, instance), instance


EQUIVALENT = (
    {"$dynamicRef": "#x", "$defs": {"x": {"$dynamicAnchor": "x", "type": "integer"}}},
    {"$dynamicRef": "#/$defs/x", "$defs": {"x": {"not": {"type": "string"}}}},
    {
        "$dynamicRef": "#x",
        "minLength": 2,
        "$defs": {"x": {"$anchor": "x", "type": "string"}, "y": {"$dynamicAnchor": "y"}},
    },
    {
        "$schema": "https://json-schema.org/draft/2019-09/schema",
        "anyOf": [{"type": "integer"}, {"type": "array", "items": {"$recursiveRef": "#"}}],
    },
    {
        "$schema": "https://json-schema.org/draft/2019-09/schema",
        "type": "array",
        "items": {"oneOf": [{"type": ["integer", "array"]}, {"$recursiveRef": "#"}]},
    },
    {
        "not": {"$dynamicRef": "#x"},
        "$defs": {"x": {"$dynamicAnchor": "x", "type": ["string", "array", "null"]}},
    },
    {
        "if": {"$dynamicRef": "#x"},
        "then": {"maxLength": 1},
        "else": {"type": "array"},
        "$defs": {"x": {"$dynamicAnchor": "x", "type": "string"}},
    },
    {"prefixItems": [{"enum": [1, 2]}, {"enum": [2, "a"]}], "items": False, "uniqueItems": True},
    {
        "prefixItems": [{"type": "boolean"}, {"enum": [True, 1]}],
        "maxItems": 2,
        "minItems": 1,
        "uniqueItems": True,
    },
    {"type": "integer", "minimum": 3, "exclusiveMinimum": True},
    {"not": {"type": "string"}},
    {"not": {"enum": ["a", "ab", 1, None]}},
    {"not": {"required": ["a", "b"]}},
    {"not": {"properties": {"a": {"const": 1}}, "required": ["a"]}},
    {"not": {"anyOf": [{"minimum": 2}, {"type": "string"}]}},
    {"not": {"minLength": 2}},
    {"not": {"pattern": "^a"}},
    {"oneOf": [{"pattern": "^a"}, {"pattern": "b$"}]},
    {"not": {"const": []}},
    {"not": {"enum": [[1, 2], {"a": 1}]}, "type": "array"},
    {"not": {"enum": [{"a": 1}, {"b": 2}]}, "maxProperties": 1},
    {"not": {"prefixItems": [{"type": "integer"}, {"type": "string"}]}},
    {"not": {"dependentRequired": {"a": ["b", "c"]}}},
    {"not": {"dependentSchemas": {"a": {"properties": {"b": {"type": "integer"}}}}}},
    {
        "not": {
            "if": {"required": ["a"]},
            "then": {"required": ["b"]},
            "else": {"maxProperties": 1},
        },
        "maxProperties": 2,
    },
    {
        "propertyNames": {
            "anyOf": [{"const": "a"}, {"pattern": "^b"}, {"maxLength": 1}, {"type": "integer"}]
        }
    },
    {"propertyNames": {"not": {"pattern": "^a"}}},
    {"pattern": "^(?!ab)(?=.*b)"},
    {"not": {"not": {"maxItems": 1}}},
    {
        "type": "object",
        "not": {"additionalProperties": False, "properties": {"d": True}},
        "maxProperties": 1,
    },
    {"oneOf": [{"minimum": 1}, {"maximum": 2}]},
    {"oneOf": [{"type": "integer"}, {"type": "string"}]},
    {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
    {
        "if": {"type": "object", "required": ["a"]},
        "then": {"required": ["b"]},
        "else": {"maxProperties": 1},
    },
    {"if": {"properties": {"a": {"const": 1}}, "required": ["a"]}, "then": {"required": ["b"]}},
    {"dependentRequired": {"a": ["b"]}},
    {"dependentSchemas": {"a": {"properties": {"b": {"type": "integer"}}}}},
    {"propertyNames": {"enum": ["a", "b"]}},
    {"propertyNames": {"pattern": "^[ab]$"}, "properties": {"c": True}},
    {"propertyNames": {"maxLength": 1}},
    {
        "type": "object",
        "properties": {"a": True, "b": True},
        "minProperties": 2,
        "additionalProperties": False,
    },
    {
        "unevaluatedProperties": False,
        "allOf": [{"properties": {"a": True}}],
        "properties": {"b": True},
    },
    {"$ref": "#/$defs/x", "$defs": {"x": {"type": ["integer", "null"]}}},
    {
        "type": "object",
        "additionalProperties": {"$ref": "#/$defs/x"},
        "$defs": {"x": {"$ref": "#/$defs/y"}, "y": {"type": "integer"}},
    },
    {
        "$schema": DRAFT_7,
        "properties": {"a": {"$ref": "#/definitions/x", "minimum": 7}},
        "definitions": {"x": {"type": "integer"}},
    },
    {"$schema": "http://json-schema.org/draft-04/schema#", "maximum": 2, "exclusiveMaximum": True},
    {"$schema": DRAFT_7, "items": [{"type": "integer"}], "additionalItems": False},
    {"prefixItems": [{"type": "integer"}], "additionalItems": False},
    {"enum": [1, "a", None], "type": ["string", "null"]},
    {"type": "array", "uniqueItems": True, "maxItems": 1},
    {"format": "unheard-of"},
    {"not": {"type": "string", "format": "unheard-of"}},
    {"oneOf": [{"enum": ["a", 1]}, {"type": "string", "format": "unheard-of"}]},
)


@pytest.mark.parametrize("schema", EQUIVALENT, ids=lambda schema: json.dumps(schema)[:60])
def test_the_core_of_what_it_can_express_has_the_same_instances(schema: Any) -> None:
    core = plain(lowered(schema))
    for instance in INSTANCES:
        assert is_valid(core, instance) == is_valid(schema, instance), instance


NARROWED = (
    ({"type": "array", "contains": {"const": "a"}}, ["a", 1], [1, 1, 1, 1, "a"]),
    ({"type": "string", "format": "time"}, "12:00:00Z", "23:59:60Z"),
    ({"type": "string", "format": "hostname"}, "example.com", "xn--9n2bp8q.com"),
    ({"patternProperties": {r"^\s$": {"type": "integer"}}}, {" ": 1, "bc": "x"}, {"\ufeff": "x"}),
)


@pytest.mark.parametrize(
    ("schema", "kept", "lost"), NARROWED, ids=lambda value: json.dumps(value)[:40]
)
def test_where_the_core_says_less_it_keeps_common_instances(
    schema: Any, kept: Any, lost: Any
) -> None:
    core = plain(lowered(schema))
    assert is_valid(core, kept) and is_valid(schema, kept)
    assert not is_valid(core, lost) and is_valid(schema, lost)


REFUSED = (
    (
        {"properties": {"tags": {"type": "array", "uniqueItems": True}}},
        "uniqueItems",
        "/properties/tags/uniqueItems",
    ),
    ({"items": {"$ref": "http://example.com/x"}}, "$ref", "/items/$ref"),
    (
        {"$defs": {"x": {"pattern": "^(?:b(?=ba))*$"}}, "$ref": "#/$defs/x"},
        "pattern",
        "/$defs/x/pattern",
    ),
    ({"not": {"multipleOf": 0.5}}, "multipleOf", "/not/multipleOf"),
    ({"oneOf": [{"format": "uri-template"}, {"pattern": "b$"}]}, "format", "/oneOf/0/format"),
    (
        {
            "$ref": "z",
            "$defs": {
                "y": {"$id": "y", "$dynamicAnchor": "x"},
                "z": {"$id": "z", "$defs": {"a": {"$dynamicAnchor": "x"}}, "$dynamicRef": "#x"},
            },
        },
        "$dynamicRef",
        "/$defs/z/$dynamicRef",
    ),
    (
        {"$ref": "#/$defs/x", "$defs": {"x": {"$ref": "#/$defs/y"}, "y": {"$ref": "#/$defs/x"}}},
        "$ref",
        "/$defs/y/$ref",
    ),
    ({"$schema": "http://json-schema.org/draft-03/schema#"}, "$schema", "/$schema"),
    (
        {
            "anyOf": [{"properties": {name: True}} for name in "abcdef"],
            "unevaluatedProperties": False,
        },
        "unevaluatedProperties",
        "/unevaluatedProperties",
    ),
)


@pytest.mark.parametrize(("schema", "keyword", "path"), REFUSED, ids=lambda value: str(value)[:40])
def test_a_refusal_names_keyword_and_path(schema: Any, keyword: str, path: str) -> None:
    with pytest.raises(UnsupportedGuide) as refusal:
        lowered(schema)
    assert (refusal.value.keyword, refusal.value.path) == (keyword, path)
    assert keyword in str(refusal.value) and path in str(refusal.value)


def test_a_pattern_in_slashes_is_refused_with_what_to_write() -> None:
    with pytest.raises(UnsupportedGuide, match=r"anchor inside .* without slashes around it"):
        lowered({"pattern": r"/^\d+$/"})


def test_a_pointer_to_an_empty_name_is_told_how_the_whole_document_is_written() -> None:
    with pytest.raises(InvalidGuide, match="nothing; '#' is the whole document"):
        lowered({"items": {"$ref": "#/"}})
    lowered({"items": {"$ref": "#"}})


def test_a_reference_of_another_draft_is_refused_with_what_to_write() -> None:
    wish = r"draft 2019-09 alone; name that in \$schema, or write \$ref"
    for schema in ({"items": {"$recursiveRef": "#"}}, {"not": {"$recursiveRef": "#/$defs/a"}}):
        with pytest.raises(UnsupportedGuide, match=wish):
            lowered({**schema, "$defs": {"a": {"type": "string"}}})


MALFORMED = (
    ({"type": "strnig"}, "/type"),
    ({"type": []}, "/type"),
    ({"properties": []}, "/properties"),
    ({"items": {"minimum": "3"}}, "/items/minimum"),
    ({"properties": {"a": 3}}, "/properties"),
    ({"anyOf": []}, "/anyOf"),
    ({"anyOf": [{"required": "a"}]}, "/anyOf/0/required"),
    ({"multipleOf": 0}, "/multipleOf"),
    ({"minLength": -1}, "/minLength"),
    ({"minItems": 1.5}, "/minItems"),
    ({"$ref": "#/nowhere"}, "/$ref"),
    ({"enum": "a"}, "/enum"),
    ({"additionalProperties": []}, "/additionalProperties"),
)


@pytest.mark.parametrize(("schema", "path"), MALFORMED, ids=lambda value: str(value)[:40])
def test_a_malformed_schema_is_refused_with_its_path(schema: Any, path: str) -> None:
    with pytest.raises(InvalidGuide, match=path.replace("$", r"\$")) as refusal:
        lowered(schema)
    assert not isinstance(refusal.value, UnsupportedGuide)


@pytest.mark.parametrize(
    "schema", [False, {"not": {}}, {"enum": []}, {"allOf": [{"enum": ["a"], "type": "integer"}]}]
)
def test_a_schema_of_nothing_is_refused(schema: Any) -> None:
    with pytest.raises(InvalidGuide, match="no value at all"):
        lowered(schema)


def test_a_required_property_without_a_value_is_named() -> None:
    null = {"type": "string", "nullable": True, "enum": [None]}
    inner = {"type": "object", "properties": {"b": null}, "required": ["b"]}
    outer = {"type": "object", "properties": {"a": inner}, "required": ["a"]}
    with pytest.raises(InvalidGuide, match=r"/properties/a/properties/b has none.*enum.*nullable"):
        list(core_schemas(outer, LLGUIDANCE))
    optional = {"type": "object", "properties": {"a": inner}}
    assert list(core_schemas(optional, LLGUIDANCE))


def test_unused_definitions_are_not_looked_at() -> None:
    core = lowered({"type": "null", "$defs": {"x": {"type": "nonsense"}}})
    assert plain(core) == {"type": "null"}


def test_a_chain_of_references_as_long_as_the_schema_is_followed() -> None:
    definitions = {f"d{i}": {"items": {"$ref": f"#/$defs/d{i + 1}"}} for i in range(3000)}
    core = lowered({"$ref": "#/$defs/d0", "$defs": {**definitions, "d3000": {"type": "null"}}})
    assert len(core.definitions) == 3001


def test_a_schema_that_spells_out_to_too_much_runs_into_a_limit() -> None:
    schema: Any = {"minimum": 1}
    for _ in range(12):
        schema = {
            "oneOf": [{**schema, "maximum": 9}, {**schema, "maximum": 8}, {**schema, "maximum": 7}]
        }
    with (
        pytest.raises(GuideLimitExceeded, match="takes more than max_schema_steps"),
        Budget(100_000).counting(),
    ):
        lowered(schema)


def test_where_properties_may_repeat_they_are_not_counted() -> None:
    core = lowered({"type": "object", "minProperties": 2})
    (doubt,) = unenforced(core, backend_spec("llguidance").enforced())
    assert (doubt.keyword, doubt.path) == ("minProperties", "")
