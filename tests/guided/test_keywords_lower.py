"""The rewriting of schemas into the core: every instance of the core is one of the original, and
few are lost."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specguide.errors import GuideLimitExceeded, InvalidGuide, UnsupportedGuide
from specguide.guided.backends import backend_spec
from specguide.guided.budget import Budget
from specguide.guided.schema.emit import emit
from specguide.guided.schema.enforce import unenforced
from specguide.guided.schema.lower import lower
from specguide.guided.schema.nodes import CoreSchema

DRAFT_7 = "http://json-schema.org/draft-07/schema#"
NAMES = ("a", "b", "c")
SCALARS: list[Any] = [None, True, False, 0, 1, 2, 5, 1.5, -3, "", "a", "ab", "abc", "b"]
INSTANCES: list[Any] = [
    *SCALARS,
    [],
    [1],
    ["a"],
    [1, 2],
    [1, "a"],
    ["a", 1],
    [1, 1, 1],
    [[]],
    {},
    {"a": 1},
    {"a": "ab"},
    {"b": 1},
    {"a": 1, "b": 2},
    {"a": "a", "b": None},
    {"b": True, "c": []},
    {"a": 1, "b": 2, "c": 3},
    {"d": 0},
    {"a": {"a": 1}},
    {"a": {"b": "x"}},
    {"c": {"a": 0}},
    {"d": 1, "e": 2},
    {"ab": 1},
    {"a": []},
    {"a": [1]},
]


def is_valid(schema: Any, instance: Any) -> bool:
    cls = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    return cls(schema).is_valid(instance)


def plain(core: CoreSchema) -> Any:
    """A core schema as the JSON that a backend is given."""
    return json.loads(json.dumps(emit(core)))


def lowered(schema: Any, backend: str = "llguidance") -> CoreSchema:
    return lower(schema, backend_spec(backend).enforced())


def schemas() -> st.SearchStrategy[Any]:
    """Schemas of all keywords over few names and values, so that they often clash."""
    types = st.sampled_from(["null", "boolean", "number", "integer", "string", "array", "object"])
    count = st.integers(0, 3)
    leaves = st.fixed_dictionaries(
        {},
        optional={
            "type": st.one_of(types, st.lists(types, min_size=1, max_size=3, unique=True)),
            "const": st.sampled_from(SCALARS),
            "enum": st.lists(st.sampled_from(SCALARS), min_size=1, max_size=4),
            "minimum": st.integers(-2, 3),
            "exclusiveMaximum": st.integers(0, 6),
            "multipleOf": st.sampled_from([1, 2, 0.5]),
            "minLength": count,
            "maxLength": count,
            "pattern": st.sampled_from(["^a", "b$", "^[a-c]*$", "a|^b"]),
            "minItems": count,
            "maxItems": count,
            "required": st.lists(st.sampled_from(NAMES), max_size=2, unique=True),
            "minProperties": st.integers(0, 2),
            "maxProperties": count,
        },
    )

    def deeper(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        some = st.lists(inner, min_size=1, max_size=3)
        named = st.dictionaries(st.sampled_from(NAMES), inner, max_size=2)
        composed = st.fixed_dictionaries(
            {},
            optional={
                "properties": named,
                "additionalProperties": inner,
                "items": inner,
                "prefixItems": some,
                "allOf": some,
                "anyOf": some,
                "oneOf": some,
                "not": inner,
                "if": inner,
                "then": inner,
                "else": inner,
                "contains": inner,
                "patternProperties": st.dictionaries(
                    st.sampled_from(["^a", "b"]), inner, max_size=1
                ),
                "propertyNames": st.sampled_from(
                    [{"pattern": "^a"}, {"maxLength": 1}, {"enum": ["a", "b"]}]
                ),
                "dependentRequired": st.dictionaries(
                    st.sampled_from(NAMES), st.lists(st.sampled_from(NAMES), max_size=2), max_size=1
                ),
                "dependentSchemas": st.dictionaries(st.sampled_from(NAMES), inner, max_size=1),
                "unevaluatedProperties": st.booleans(),
            },
        )
        return st.builds(lambda left, right: {**left, **right}, leaves, composed)

    return st.recursive(st.one_of(st.booleans(), leaves), deeper, max_leaves=6)


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
)


@pytest.mark.parametrize("schema", EQUIVALENT, ids=lambda schema: json.dumps(schema)[:60])
def test_the_core_of_what_it_can_express_has_the_same_instances(schema: Any) -> None:
    core = plain(lowered(schema))
    for instance in INSTANCES:
        assert is_valid(core, instance) == is_valid(schema, instance), instance


NARROWED = (
    ({"type": "array", "contains": {"const": "a"}}, ["a", 1], [1, "a"]),
    ({"type": "string", "format": "time"}, "12:00:00Z", "23:59:60Z"),
    ({"type": "string", "format": "hostname"}, "example.com", "xn--9n2bp8q.com"),
    ({"patternProperties": {"^.$": {"type": "integer"}}}, {"a": 1}, {"ab": 1}),
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
    ({"$defs": {"x": {"pattern": "b(?=a)"}}, "$ref": "#/$defs/x"}, "pattern", "/$defs/x/pattern"),
    ({"not": {"multipleOf": 2}}, "multipleOf", "/not/multipleOf"),
    ({"oneOf": [{"format": "date"}, {"pattern": "b$"}]}, "format", "/oneOf/0/format"),
    ({"$dynamicRef": "#x"}, "$dynamicRef", "/$dynamicRef"),
    ({"properties": {"a/b": {"const": "\u0001"}}}, "const", "/properties/a~1b/const"),
    ({"enum": ["\u0000"]}, "enum", "/enum"),
    (
        {"$ref": "#/$defs/x", "$defs": {"x": {"$ref": "#/$defs/y"}, "y": {"$ref": "#/$defs/x"}}},
        "$ref",
        "/$defs/y/$ref",
    ),
    ({"$schema": "http://json-schema.org/draft-03/schema#"}, "$schema", "/$schema"),
    (
        {"anyOf": [{"properties": {"a": True}}], "unevaluatedProperties": False},
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
