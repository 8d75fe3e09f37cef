"""Random schemas, what they become on their way to a backend, and instances to tell them apart."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
from hypothesis import strategies as st

from specguide.config import GuideConfig
from specguide.guide import Guide
from specguide.guided.backends import backend_spec
from specguide.guided.backends.llguidance.lark import guide_to_lark
from specguide.guided.budget import Budget
from specguide.guided.schema.core.emit import emit
from specguide.guided.schema.core.nodes import CoreSchema
from specguide.guided.schema.lowering.lower import lower
from specguide.guided.schema.negation.positive import without_negations
from specguide.guided.select import rewrites

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
    return lower(without_negations(schema), backend_spec(backend).enforced())


def written(schema: Any) -> str:
    """The first grammar of a schema for llguidance."""
    with Budget(GuideConfig().max_schema_steps).counting():
        rewritten = next(rewrites(Guide(json_schema=schema), "llguidance"))
        return guide_to_lark(rewritten, GuideConfig())


_COUNTS = st.integers(0, 3)
_NAME_LISTS = st.lists(st.sampled_from(NAMES), max_size=2, unique=True)
_TYPES = st.sampled_from(["null", "boolean", "number", "integer", "string", "array", "object"])
_LEAVES = st.fixed_dictionaries(
    {},
    optional={
        "type": st.one_of(_TYPES, st.lists(_TYPES, min_size=1, max_size=3, unique=True)),
        "const": st.sampled_from(SCALARS),
        "enum": st.lists(st.sampled_from(SCALARS), min_size=1, max_size=4),
        "minimum": st.integers(-2, 3),
        "exclusiveMaximum": st.integers(0, 6),
        "multipleOf": st.sampled_from([1, 2, 0.5]),
        "minLength": _COUNTS,
        "maxLength": _COUNTS,
        "pattern": st.sampled_from(["^a", "b$", "^[a-c]*$", "a|^b"]),
        "minItems": _COUNTS,
        "maxItems": _COUNTS,
        "required": _NAME_LISTS,
        "minProperties": st.integers(0, 2),
        "maxProperties": _COUNTS,
    },
)


def _composed(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
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
                st.sampled_from(["^a", "b", ".*", "^b*"]), inner, max_size=1
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
    return st.builds(lambda left, right: {**left, **right}, _LEAVES, composed)


def schemas() -> st.SearchStrategy[Any]:
    """Schemas of all keywords over few names and values, so that they often clash."""
    return st.recursive(st.one_of(st.booleans(), _LEAVES), _composed, max_leaves=6)
