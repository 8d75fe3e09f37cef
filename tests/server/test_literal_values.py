"""Objects and arrays in formats whose templates write them as Python does: what the grammar takes
is that, and it is read as the same JSON, as JSON itself is."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pytest
from one_compiler import compiler_of
from read_outputs import cut, events_of, form_of, no_token

from benchmarks.guides.walks import END, VOCABULARY, walk
from benchmarks.spans import told
from specguide.config import GuideConfig
from specguide.guided.compile import CompiledGrammar
from specguide.guided.tools import Tool, ToolFormat, tool_formats, tool_guide

LIMITS = GuideConfig(isolate_compiles=False)
FORMATS = [
    pytest.param(one, id=name)
    for name, one in tool_formats().items()
    if one.arguments is not None and one.arguments.has_literals
]
TEXT, NULL = {"type": "string"}, {"type": "null"}
POINT = {
    "type": "object",
    "properties": {"x": {"type": "number"}, "of what": {"enum": ["it's", "\n", 1, ""]}},
}
MIXED = {"type": "array", "items": {"anyOf": [TEXT, {"type": ["boolean", "null"]}, POINT]}}
OPEN = {"type": "object", "properties": {}, "additionalProperties": True}
SHORT = {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 2}}
SCHEMAS = {
    "mixed": MIXED,
    "perhaps": {"anyOf": [SHORT, {"$ref": "#/$defs/point"}, NULL]},
    "any": {"anyOf": [{**TEXT, "maxLength": 9}, SHORT, POINT, {"type": "integer"}]},
    "open": OPEN,
    "list": {"type": "array"},
    "of any": {"type": "array", "items": {}, "maxItems": 2},
    "or": {"anyOf": [OPEN, {"type": "array"}, NULL]},
}
TOOLS = [Tool("f", {"type": "object", "properties": SCHEMAS, "$defs": {"point": POINT}})]
GOOD: list[dict[str, Any]] = [
    {"mixed": ["a", True, None, {"x": 1.5}], "perhaps": None, "any": -3},
    {"mixed": [], "perhaps": [], "any": "x [] '"},
    {"mixed": ["it's", 'a"b', "'\"", "", "\\ é\n\t\r\x00\x7f\u200b\U000e0001\U0001f600 </param>"]},
    {"mixed": [{}, {"of what": "it's"}, {"x": 1e-07, "of what": "\n"}, {"of what": 1}]},
    {"mixed": [{"x": 1e16, "of what": ""}], "perhaps": {"x": 10**30}, "any": {"x": -0.5}},
    {"perhaps": ["a", "\n\\"], "any": ["''"]},
    {"open": {"a'\n": [{}, [], True, None, -1.5e-07], "": {"b": "'\""}}, "list": [[0, {"": 1}]]},
    {"open": {}, "list": [], "of any": [{"a": ["b"]}, "'"], "or": {"a": {"b": [None]}}},
    {"of any": [False], "or": ["a", 1e16]},
]
BAD = ("['a','b']", '["a"]', "['a]", "[true]", r"['\d']", "[1]", "[{'x': '1'}]", "['\x7f']")

compiler = compiler_of(VOCABULARY, LIMITS)


def read(one: ToolFormat, text: str, size: int) -> Any:
    """The arguments of the one call in a text, which comes in stretches of this size."""
    _, said, [(_, arguments)] = told(events_of(form_of(one, TOOLS), cut(text.encode(), size)))
    assert said == ""
    return json.loads(arguments)


def written(one: ToolFormat, values: dict[str, str]) -> str:
    """A call with values as they are written."""
    form = one.arguments
    text = "".join(
        form.before_name + name + form.before_value + value + form.after_value
        for name, value in values.items()
    )
    return one.opening + "f" + one.before_arguments + text + one.after_arguments + one.end


def is_taken(grammar: CompiledGrammar, text: str) -> bool:
    matcher = grammar.matcher()
    return all(map(matcher.accept, text.encode())) and matcher.accept(END)


@pytest.mark.parametrize("one", FORMATS)
def test_values_are_written_as_python_writes_them(one: ToolFormat, compiler):
    grammar = compiler.compile(tool_guide(one, TOOLS, no_token, LIMITS, must_call=True))
    for arguments in GOOD:
        text = written(one, {name: str(value) for name, value in arguments.items()})
        assert one.message([("f", json.dumps(arguments))]) == text and is_taken(grammar, text)
        as_json = written(
            one,
            {
                name: value if isinstance(value, str) else json.dumps(value)
                for name, value in arguments.items()
            },
        )
        for size in (1, 2, 3, 7, 1000):
            assert read(one, text, size) == read(one, as_json, size) == arguments
    for value in BAD:
        assert not is_taken(grammar, written(one, {"mixed": value}))
    for value in ('["a"]', "[true]", "[1,2]", "['a': 1]", "[[1]", "['\n']", "[01]"):
        assert not is_taken(grammar, written(one, {"list": value}))
    for value in ("['']", "['abc']", r"['\x41\u200b\n']", "[1]", "{'y': 1}"):
        assert not is_taken(grammar, written(one, {"perhaps": value}))


@pytest.mark.parametrize("one", FORMATS)
def test_random_values_fit_their_schemas(one: ToolFormat, compiler):
    way = {"must_call": True, "is_parallel": False}
    grammar = compiler.compile(tool_guide(one, TOOLS, no_token, LIMITS, **way))
    rng = random.Random(1)
    for _ in range(40):
        text = walk(grammar, rng, 80)
        arguments = read(one, text, 1)
        assert read(one, text, 1000) == arguments
        jsonschema.validate(arguments, TOOLS[0].parameters)


@pytest.mark.parametrize("one", FORMATS)
def test_values_that_no_grammar_made(one: ToolFormat):
    for text, value in {
        r"""['\'\"\/\a\d', '\U99999999']""": ["'\"/\x07\\d", r"\U99999999"],
        "['a\nb\t', \"it's\"]": ["a\nb\t", "it's"],
        r"['\ud83d\ude00\U0001F600', '\xe9\x22']": ["\U0001f600\U0001f600", 'é"'],
        "{'a': {\"b'\": [{}, True]}, '\"\\\\': None}": {"a": {"b'": [{}, True]}, '"\\': None},
    }.items():
        call = written(one, {"mixed": text})
        for size in (1, 2, 5, 1000):
            assert read(one, call, size) == {"mixed": value}


@pytest.mark.parametrize("one", FORMATS)
def test_what_is_cut_off_is_told_alike_in_any_stretches(one: ToolFormat):
    call = written(one, {"mixed": r"['a\x41', {'of what': 'it\'s', True: " + '"'})
    for end in range(len(call)):
        data = call[:end].encode()
        ways = [told(events_of(form_of(one, TOOLS), cut(data, size))) for size in (1, 3, 1000)]
        assert ways[0] == ways[1] == ways[2]
