"""Answers beside tools that begin as a call does, in a format whose calls are JSON objects."""

from __future__ import annotations

import pytest
from call_messages import END, FORMATS, PLAIN, VOCABULARY, asked, compiler, row_of

from specguide.config import GuideConfig
from specguide.guided.compile import GrammarCompiler
from specguide.guided.tools import Tool
from specguide.guided.tools.message_tag import message_tag

FORMAT = "llama3_json"
PLACE = {
    "type": "object",
    "properties": {"city": {"enum": ["Oslo", "Rome"]}},
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS = [Tool("weather", PLACE), Tool("weather.a", PLAIN)]
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
}
PAIR = {"type": "object", "properties": {"x": {"$ref": "#/$defs/x"}}, "$defs": {"x": PERSON}}
CALLS = [
    '{"name": "weather", "parameters": {"city": "Oslo"}}',
    '{"name": "weather.a", "parameters": {"a": "b"}}',
]
NO_CALLS = [
    '{"name": "weather", "parameters": {"city": "Bonn"}}',
    '{"name": "other", "parameters": {"city": "Oslo"}}',
    '{"name":"weather", "parameters": {"city": "Oslo"}}',
]
DRAFT_7 = "http://json-schema.org/draft-07/schema#"
ISOLATED = GuideConfig(isolate_compiles=True)


def is_whole(grammar, text: str) -> bool:
    matcher = grammar.matcher()
    return all(map(matcher.accept, text.encode())) and END in row_of(matcher)


@pytest.mark.parametrize("is_isolated", [False, True])
@pytest.mark.parametrize(
    ("answer", "texts"),
    [
        (
            PERSON,
            ['{"name": "Ann", "age": 3}', '{"name":"weather","age":4}', '{"name": "w", "age": 5}'],
        ),
        (PAIR, ['{"x": {"name": "we", "age": 3}}', '{ "x":{"name":"weather","age":4}}', "{}"]),
    ],
)
def test_an_answer_and_a_call_may_begin_alike(answer, texts, is_isolated):
    """A lexer that takes the longest terminal would have what begins as a call be one."""
    guide = asked(FORMAT, TOOLS, answer=answer)
    compiling = GrammarCompiler(VOCABULARY, ISOLATED) if is_isolated else compiler()
    grammar = compiling.compile(guide)
    assert all(is_whole(grammar, text) for text in [*texts, *CALLS])
    assert not any(is_whole(grammar, text) for text in NO_CALLS)
    if is_isolated:
        compiling.close()


def test_what_no_tag_enforces_is_lexed():
    """Answers that begin with whitespace are left then."""
    answer = {"type": "object", "properties": {"x": {"type": "integer", "multipleOf": 7}}}
    grammar = compiler().compile(asked(FORMAT, TOOLS, answer=answer))
    assert all(is_whole(grammar, text) for text in ['{ "x": 14}', *CALLS])
    assert not any(is_whole(grammar, text) for text in ['{ "x": 15}', *NO_CALLS[1:]])


CONDITION = {"if": {"properties": {"age": {"const": 1}}}, "then": {"required": ["x"]}}


@pytest.mark.parametrize(
    ("answer", "texts", "others"),
    [
        (True, ['{"name": "weather", "x": 1}', '{"parameters": {}}', "[1]"], []),
        ({"type": "object"}, ['{"a": {"name": 1, "parameters": 2}}', "{}"], ["[1]"]),
        ({**PERSON, "additionalProperties": True}, ['{"name": "we", "age": 3, "x": 0}'], ["{}"]),
        (
            {"$ref": "#/definitions/x", "definitions": {"x": PERSON}, "$schema": DRAFT_7},
            ['{"name": "weather", "age": 3}'],
            ["{}"],
        ),
        (
            {**PERSON, **CONDITION},
            ['{"name": "weather", "age": 1, "x": 0}', '{"name": "a", "age": 2}'],
            ['{"name": "a", "age": 1}'],
        ),
        (
            {"anyOf": [PERSON, {"properties": {"age": {"type": "string"}}, "required": ["x"]}]},
            ['{"name": "we", "age": 3}', '{"age": "1", "x": 2}', '"x"'],
            ['{"name": "we", "age": 3.5}', '{"age": "1"}'],
        ),
        (
            {"properties": {"x": {"properties": {"y": {"type": "integer"}}}}},
            ['{"x": {"y": 1, "z": 2}}', '{"x": "y"}', '"x"', "[1]"],
            ['{"x": {"y": "z"}}'],
        ),
    ],
)
def test_an_answer_is_all_that_its_schema_takes_but_calls(answer, texts, others):
    grammar = compiler().compile(asked(FORMAT, TOOLS, answer=answer))
    assert all(is_whole(grammar, text) for text in [*texts, *CALLS])
    assert not any(is_whole(grammar, text) for text in [*others, *NO_CALLS[:1]])


@pytest.mark.parametrize(
    "answer",
    [
        {**PERSON, "properties": {"name": {}, "parameters": {}}},
        {**PERSON, "unevaluatedProperties": False},
        {"$ref": "#/$defs/x/y", "$defs": {"x": {"y": PERSON}}},
    ],
)
def test_no_tag_leaves_out_what_an_answer_may_be(answer):
    assert message_tag(FORMATS[FORMAT], TOOLS, answer) is None
    grammar = compiler().compile(asked(FORMAT, TOOLS, answer=answer))
    assert all(is_whole(grammar, text) for text in CALLS)
    assert not any(is_whole(grammar, text) for text in NO_CALLS[:1])


def test_tools_may_ask_what_depends():
    """Arguments are in a tag, too."""
    tools = [Tool("weather", {**PERSON, **CONDITION})]
    grammar = compiler().compile(asked(FORMAT, tools, answer={"type": "object"}))
    call = '{"name": "weather", "parameters": %s}'
    assert is_whole(grammar, call % '{"name": "a", "age": 1, "x": 0}')
    assert not is_whole(grammar, call % '{"name": "a", "age": 1}')


def test_names_that_are_not_kept_apart_close_an_object():
    answer = {"type": "object", "properties": {"größe": {"type": "integer"}}}
    grammar = compiler().compile(asked(FORMAT, TOOLS, answer=answer))
    assert is_whole(grammar, '{"größe": 1}')
    assert not is_whole(grammar, '{"größe": 1, "x": 2}')
