"""Arrays of distinct items in the arguments of tools: in several calls of a message, beside other
tools and an answer, as often as it is rolled back."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import jsonschema
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from one_compiler import compiler_of
from read_outputs import cut, events_of, form_of, no_token

from benchmarks.guides.walks import END, VOCABULARY, walk
from benchmarks.spans import told
from specguide.config import GuideConfig
from specguide.errors import InvalidGuide, UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.tools import Tool, ToolFormat, tool_formats, tool_guide

LIMITS = GuideConfig()


def sets(items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, "uniqueItems": True, **more}


def closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


PARAMETERS = closed(
    {
        "tags": sets({"type": "string", "maxLength": 2}),
        "ids": sets({"type": "integer", "minimum": 0, "maximum": 20}, minItems=2),
        "kinds": sets({"enum": list("abcdefghijk")}, minItems=1),
        "pairs": sets(closed({"x": sets({"enum": list(range(9))}, maxItems=3)}), maxItems=4),
    }
)
PLAIN = closed({"ids": {"type": "array", "items": {"type": "integer"}}, "text": {"type": "string"}})
TOOLS = [Tool("put", PARAMETERS), Tool("plain", PLAIN)]
ANSWER = closed({"ids": sets({"type": "integer"})})
FORMATS = {
    name: one
    for name, one in tool_formats().items()
    if one.opening and not (one.arguments or one.ids)
}
IDS = st.lists(st.integers(0, 3), max_size=4)

compiler = compiler_of(VOCABULARY, LIMITS)


def grammar_of(compiler, one: ToolFormat, **asked: Any):
    return compiler.compile(tool_guide(one, TOOLS, no_token, LIMITS, **asked))


def takes(matcher, text: bytes) -> bool:
    return all(map(matcher.accept, text)) and matcher.accept(END)


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("name", FORMATS)
def test_random_calls_have_distinct_items(name, order, compiler):
    one, rng = FORMATS[name], random.Random(3)
    grammar = grammar_of(compiler, one, must_call=True, key_order=order)
    num_calls = 0
    for _ in range(6):
        text = walk(grammar, rng, 250)
        *_, calls = told(events_of(form_of(one, TOOLS), cut(text.encode(), 9)))
        num_calls += len(calls)
        for called, arguments in calls:
            schema = next(tool.parameters for tool in TOOLS if tool.name == called)
            jsonschema.validate(json.loads(arguments), schema)
    assert num_calls >= 6


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(sorted(FORMATS)),
    ids=st.lists(st.tuples(st.booleans(), IDS), min_size=1, max_size=3),
    seed=st.integers(0, 99),
)
def test_what_repeats_an_item_is_refused_in_each_call(compiler, name, ids, seed):
    """The same items may come in another call, and in a tool that does not ask for others."""
    one, rng = FORMATS[name], random.Random(seed)
    calls, is_right = [], True
    for is_set, numbers in ids if one.separator is not None else ids[:1]:
        if is_set:
            rest = {"tags": ["a", "b"], "kinds": ["k"], "pairs": [{"x": [1]}, {"x": [2, 1]}]}
            values = {"tags": rest.pop("tags"), "ids": [8, 9, *numbers], **rest}
            is_right &= len(set(numbers)) == len(numbers)
        else:
            values = {"ids": numbers, "text": 'put {"ids": [1, 1'}
        calls.append(("put" if is_set else "plain", json.dumps(values)))
    matcher = grammar_of(compiler, one, must_call=True).matcher()
    text, at = one.message(calls).encode(), 0
    while at < len(text) and matcher.accept(text[at]):
        at += 1
        if rng.random() < 0.02:
            back = rng.randint(1, min(at, 40))
            matcher.rollback(back)
            at -= back
    assert (at == len(text) and matcher.accept(END)) == is_right


@pytest.mark.parametrize("name", FORMATS)
def test_rows_are_what_may_be_taken(name, compiler):
    one = FORMATS[name]
    values = {"tags": ["a"], "ids": [1, 12], "kinds": ["b"], "pairs": [{"x": [3]}]}
    matcher = grammar_of(compiler, one, must_call=True).matcher()
    row = np.zeros(VOCABULARY.num_words, np.int32)
    for byte in one.message([("put", json.dumps(values))]).encode():
        matcher.fill(row)
        bits = np.unpackbits(row.view(np.uint8), bitorder="little")
        for token in range(END):
            taken = matcher.accept(token)
            assert taken == bool(bits[token])
            matcher.rollback(int(taken))
        assert matcher.accept(byte)


def test_an_answer_beside_tools(compiler):
    grammar = grammar_of(compiler, FORMATS["hermes"], answer=ANSWER)
    assert takes(grammar.matcher(), b'{"ids": [1, 2]}')
    assert not takes(grammar.matcher(), b'{"ids": [1, 1]}')


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("behind", [5, ["x"], [""], [3]], ids=str)
def test_beginnings_that_are_none_are_refused(order, behind, compiler):
    schema = json.dumps({**sets({"type": "integer"}), "x-guidance": {"behind": behind}})
    with pytest.raises(InvalidGuide, match="behind must be"):
        compiler.compile(Guide(grammar=f"start: %json {schema}", key_order=order))


def test_a_compile_in_a_process_of_its_own_tells_it_too(new_compiler):
    isolated = new_compiler(VOCABULARY, isolate_compiles=True)
    one = FORMATS["hermes"]
    values = {"tags": [], "ids": [1, 2], "kinds": ["a"], "pairs": []}
    for ids, is_right in ([1, 2], True), ([1, 1], False):
        text = one.message([("put", json.dumps({**values, "ids": ids}))]).encode()
        assert takes(grammar_of(isolated, one, must_call=True).matcher(), text) == is_right


def test_where_calls_cannot_be_told_it_is_refused(compiler):
    listed = next(one for one in tool_formats().values() if one.arguments)
    asked = [replace(TOOLS[0], parameters=closed({"a": sets({"type": "string"})}))]
    with pytest.raises(UnsupportedGuide, match="uniqueItems"):
        compiler.compile(tool_guide(listed, asked, no_token, LIMITS, must_call=True))
