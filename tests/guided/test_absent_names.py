"""Properties that an open object must not have, in xgrammar, which refuses them by itself."""

from __future__ import annotations

import json
from typing import Any

import pytest

from specguide.bench.instances import BYTES, takes
from specguide.config import GuideConfig
from specguide.errors import InvalidGuide
from specguide.guide import Guide
from specguide.guided.backend import CompiledGrammar
from specguide.guided.compile import GrammarCompiler

COMPILER = GrammarCompiler(BYTES, GuideConfig(backend="xgrammar"))
INTEGER = {"type": "integer"}


def compiled(**asked: Any) -> CompiledGrammar:
    return COMPILER.compile(Guide(json_schema={"type": "object", **asked}))


@pytest.mark.parametrize("more", [{}, {"required": ["b"]}, {"maxProperties": 2}])
def test_others_may_come(more: dict[str, Any]) -> None:
    """Also those whose names begin as one that must be absent."""
    grammar = compiled(
        properties={"b": INTEGER, "ab": False, "a)": False}, additionalProperties=True, **more
    )
    taken = [{"b": 1}, {"b": 1, "a": 2}, {"b": 1, "abc": 2}]
    assert all(takes(grammar, json.dumps(one)) for one in taken)
    refused = [{"b": 1, "ab": 2}, {"b": 1, "a)": 2}, {"b": "c"}]
    assert not any(takes(grammar, json.dumps(one)) for one in refused)


def test_no_others_may_come() -> None:
    grammar = compiled(properties={"a": False, "b": INTEGER}, additionalProperties=False)
    assert takes(grammar, '{"b": 1}') and not takes(grammar, '{"a": 1}')


def test_one_that_is_required_is_refused() -> None:
    with pytest.raises(InvalidGuide):
        compiled(properties={"a": False}, required=["a"], additionalProperties=True)


def test_values_without_a_type_are_of_any() -> None:
    schema = {"properties": {"a": INTEGER}, "items": INTEGER, "additionalProperties": True}
    grammar = COMPILER.compile(Guide(json_schema=schema))
    assert all(takes(grammar, text) for text in ['{"a": 1, "b": "c"}', "[1]", '"a"', "2.5", "null"])
    assert not any(takes(grammar, text) for text in ['{"a": "b"}', '["a"]'])
