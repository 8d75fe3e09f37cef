"""The short way into the core comes to what the long one comes to."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specguide.errors import InvalidGuide
from specguide.guided.backends.llguidance.capabilities import LLGUIDANCE
from specguide.guided.backends.xgrammar.capabilities import XGRAMMAR
from specguide.guided.schema.core.nodes import CoreSchema
from specguide.guided.schema.lowering.lower import lower
from specguide.guided.schema.lowering.plain import plain_core
from specguide.guided.schema.negation.positive import without_negations

NAMES = st.sampled_from(["a", "b/c", "d~e", "é"])
TYPES = st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
VALUES = st.one_of(st.integers(-3, 2**60), st.booleans(), st.text(max_size=3), st.none())
NOTES = {"title": st.just("t"), "description": st.just("d"), "default": st.none()}


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    asked = {
        "type": st.one_of(TYPES, st.lists(TYPES, min_size=1, max_size=3, unique=True)),
        "properties": st.dictionaries(NAMES, inner, max_size=3),
        "required": st.lists(NAMES, max_size=3),
        "additionalProperties": inner,
        "items": inner,
    }
    listed = {"enum": st.lists(VALUES, max_size=3)}
    return st.one_of(
        st.fixed_dictionaries({}, optional={**asked, **NOTES}),
        st.fixed_dictionaries(listed, optional={"type": TYPES, **NOTES}),
    )


SCHEMAS = st.recursive(st.one_of(st.booleans(), _schemas(st.booleans())), _schemas, max_leaves=6)


def _long_way(schema: Any, able: Any) -> CoreSchema:
    return lower(without_negations(schema), able)


def _paths(core: Any) -> list[str]:
    if isinstance(core, bool):
        return []
    inside = [core.kinds.arrays.rest, *core.kinds.objects.properties.values()]
    inside.append(core.kinds.objects.additional)
    return [core.path, *(path for one in inside for path in _paths(one))]


@pytest.mark.parametrize("able", [LLGUIDANCE, XGRAMMAR])
@settings(max_examples=300, deadline=None)
@given(schema=SCHEMAS)
def test_what_is_plain_comes_to_what_the_passes_come_to(able: Any, schema: Any) -> None:
    found = plain_core(schema, able.has_open_objects)
    if found is None:
        return
    expected = _long_way(schema, able)
    assert found == expected
    assert _paths(found.root) == _paths(expected.root)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"type": "string", "format": "date"}}},
        {"type": "string", "properties": {"a": {}}},
        {"enum": ["a\n"]},
        {"enum": [1.5]},
        {"enum": ["a"], "type": "integer"},
        {"$ref": "#"},
        {"type": "object", "properties": {"a": {"$id": "x"}}},
        {"$schema": "http://json-schema.org/draft-03/schema#", "type": "object"},
        {"type": "object", "required": True},
        {"type": "objekt"},
        {"type": "array", "items": [{"type": "string"}]},
        {"type": None},
        False,
    ],
)
def test_what_says_more_or_may_be_wrong_is_not_plain(schema: Any) -> None:
    assert plain_core(schema, True) is None


def test_a_tool_is_plain() -> None:
    tool = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "description": "A text."},
            "b": {"type": "array", "items": {"type": "string", "enum": ["c", "d"]}},
            "e": {"type": "object", "properties": {"f": {"type": "number"}}},
        },
        "required": ["a"],
        "x-guidance": {"whitespace_flexible": False},
    }
    assert plain_core(tool, True) == _long_way(tool, LLGUIDANCE)


def test_nothing_plain_is_refused_by_the_passes() -> None:
    for schema in ({}, True, {"items": True}, {"additionalProperties": True}):
        assert plain_core(schema, True) == _long_way(schema, LLGUIDANCE)
    with pytest.raises(InvalidGuide):
        _long_way(False, LLGUIDANCE)
