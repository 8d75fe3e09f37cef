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


@pytest.mark.parametrize(
    "answer",
    [
        True,
        {"type": "object"},
        {"$ref": "#/$defs/x", "$defs": {"x": PERSON}, "properties": {}},
        {**PERSON, "additionalProperties": True},
        {**PERSON, "patternProperties": {"p": {}}},
        {**PERSON, "properties": {"name": {}, "parameters": {}}},
    ],
)
def test_no_tag_has_an_answer_that_could_be_read_as_a_call(answer):
    assert message_tag(FORMATS[FORMAT], TOOLS, answer) is None
    grammar = compiler().compile(asked(FORMAT, TOOLS, answer=answer))
    assert all(is_whole(grammar, text) for text in CALLS)
    assert not any(is_whole(grammar, text) for text in NO_CALLS[:1])


@pytest.mark.parametrize(
    ("answer", "texts"),
    [
        (
            {**PERSON, "if": {"properties": {"age": {"const": 1}}}, "then": {"required": ["x"]}},
            ['{ "name": "a", "age": 1, "x": 0}', '{ "name": "a", "age": 2}'],
        ),
        ({"properties": {"x": {"type": "integer"}}}, ['{ "x": 1}', '"x"', "[1]"]),
    ],
)
def test_no_tag_leaves_out_what_an_answer_may_be(answer, texts):
    """xgrammar, which reads tags, writes some of the cases of a condition alone."""
    assert message_tag(FORMATS[FORMAT], TOOLS, answer) is None
    within = {"type": "object", "properties": {"y": answer}}
    assert message_tag(FORMATS[FORMAT], TOOLS, within) is None
    assert message_tag(FORMATS[FORMAT], [Tool("a", answer)], PERSON) is None
    grammar = compiler().compile(asked(FORMAT, TOOLS, answer=answer))
    assert all(is_whole(grammar, text) for text in texts)
