"""Keys in any order in the arguments of tool calls, over every format that has them as JSON."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from specguide.config import GuideConfig
from specguide.errors import InvalidParams, UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.compile import GrammarCompiler
from specguide.guided.tools import Tool, tool_formats, tool_guide
from specguide.tokenizer.vocabulary import Vocabulary

FORMATS = tool_formats()
FREE = [
    name for name, one in FORMATS.items() if one.arguments is None and not one.ids and one.opening
]
MARKS = sorted({mark for one in FORMATS.values() for mark in one.special_tokens})
BYTES = [bytes([byte]) for byte in range(256)]
VOCABULARY = Vocabulary((*BYTES, *[b""] * (len(MARKS) + 1)), (256 + len(MARKS),))
END = VOCABULARY.eos_token_ids[0]
LIMITS = GuideConfig()
PLACE = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"enum": [1, 2]}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
TOOLS = [Tool("weather", PLACE), Tool("we", {"type": "object", "required": ["a"]})]
ANSWER = {"type": "object", "properties": {"x": {"const": 1}, "y": {}}, "required": ["x", "y"]}
GOOD = ['{"city":"a","days":1}', '{"days": 2, "city": "{\\"days\\": 1"}']
BAD = ['{"days":1}', '{"city":"a","days":1,"city":"b"}', "{}"]


@cache
def compiler() -> GrammarCompiler:
    return GrammarCompiler(VOCABULARY, LIMITS)


def spelt(text: str, *, is_special: bool) -> list[int]:
    """Token ids; marks as special tokens."""
    for i, mark in enumerate(MARKS if is_special else ()):
        text = text.replace(mark, chr(0xE000 + i))
    tokens: list[int] = []
    for char in text:
        place = ord(char) - 0xE000
        tokens += [256 + place] if 0 <= place < len(MARKS) else list(char.encode())
    return tokens


def special(text: str) -> int | None:
    return 256 + MARKS.index(text) if text in MARKS else None


def takes(guide: Guide, text: str, *, is_special: bool = True) -> bool:
    matcher = compiler().compile(guide).matcher()
    tokens = spelt(text, is_special=is_special)
    return all(map(matcher.accept, tokens)) and matcher.accept(END)


def asked(name: str, *, is_special: bool = True, **more: Any) -> Guide:
    token = special if is_special else lambda _: None
    return tool_guide(FORMATS[name], TOOLS, token, LIMITS, **{"key_order": "any", **more})


@pytest.mark.parametrize("name", FREE)
def test_arguments_come_in_any_order(name):
    one, guide = FORMATS[name], asked(name, must_call=True)
    for arguments in GOOD:
        assert takes(guide, one.message([("weather", arguments)])), arguments
    for arguments in BAD:
        assert not takes(guide, one.message([("weather", arguments)])), arguments
    assert takes(guide, one.message([("we", '{"b":{"a":1,"c":2},"a":2}')]))
    assert not takes(guide, one.message([("we", '{"b":{"a":1,"a":2},"a":2}')]))
    if one.separator is not None:
        assert takes(guide, one.message([("weather", GOOD[1]), ("we", '{"a":1}')]))
        assert not takes(guide, one.message([("weather", GOOD[1]), ("weather", BAD[0])]))


@pytest.mark.parametrize("name", FREE)
def test_what_looks_like_a_call_in_a_text_is_text(name):
    """Later calls' beginnings, which text may hold where marks are special tokens."""
    one, guide = FORMATS[name], asked(name)
    later = one.after_arguments + (one.separator or "") + one.before_name + "weather"
    text = f"so{later}{one.before_arguments}{BAD[0]} "
    if one.special_tokens and one.opening.startswith(one.special_tokens):
        for mark in MARKS:
            text = text.replace(mark, "")
        before = one.answer(text) if one.before_answer else text
        assert takes(guide, before), before
    assert takes(guide, one.message([("weather", GOOD[1])], lead="so "))
    assert not takes(guide, one.message([("weather", BAD[0])], lead="so "))


@pytest.mark.parametrize("name", FREE)
def test_an_answer_beside_tools_has_its_keys_in_any_order(name):
    one = FORMATS[name]
    if one.opening.startswith("{"):
        with pytest.raises(InvalidParams, match="a call begins as an answer may") as refusal:
            asked(name, answer=ANSWER)
        assert refusal.value.param == "key_order"
        return
    guide = asked(name, answer=ANSWER)
    assert takes(guide, one.answer('{"y":[],"x":1}'))
    assert not takes(guide, one.answer('{"y":[]}'))
    assert takes(guide, one.message([("weather", GOOD[1])]))
    assert not takes(guide, one.message([("weather", BAD[0])]))


def test_marks_that_are_text_begin_calls_too():
    guide, one = asked("hermes", is_special=False), FORMATS["hermes"]
    calls = [("weather", GOOD[1]), ("weather", GOOD[0])]
    assert takes(guide, one.message(calls, lead="<tool"), is_special=False)
    assert not takes(guide, one.message([("weather", BAD[0])]), is_special=False)


@pytest.mark.parametrize("name", sorted(FORMATS.keys() - set(FREE)))
def test_other_formats_say_that_they_keep_the_order(name):
    with pytest.raises(InvalidParams, match='key_order "any" cannot be enforced') as refusal:
        asked(name, must_call=True)
    assert refusal.value.param == "key_order"
    engine = tool_guide(FORMATS[name], TOOLS, special, GuideConfig(key_order="any"))
    assert engine.key_order == "schema"


def test_hundreds_of_tools():
    """The calls' beginnings have braces that count for no nesting."""
    tools = [Tool(f"tool{i}", {"type": "object", "required": [f"a{i}"]}) for i in range(200)]
    one = FORMATS["hermes"]
    guide = tool_guide(one, tools, special, LIMITS, must_call=True, key_order="any")
    assert takes(guide, one.message([("tool199", '{"b":1,"a199":2}')]))
    assert not takes(guide, one.message([("tool199", '{"b":1,"a198":2}')]))


def test_a_schema_in_a_grammar_of_your_own_keeps_its_order():
    guide = Guide(grammar="start: %json " + json.dumps(PLACE), key_order="any")
    with pytest.raises(UnsupportedGuide, match='ask for key_order "schema"'):
        compiler().compile(guide)


@pytest.mark.parametrize("name", FREE)
def test_arguments_that_must_contain_themselves_are_not_begun(name):
    endless = {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, "required": ["n"]}
    properties = {"a": {"anyOf": [{"$ref": "#/$defs/n"}, {"const": 1}]}}
    parameters = {"type": "object", "properties": properties, "$defs": {"n": endless}}
    one = FORMATS[name]
    tools = [Tool("f", parameters)]
    guide = tool_guide(one, tools, special, LIMITS, key_order="any", must_call=True)
    assert takes(guide, one.message([("f", '{"a":1}')]))
    start = one.message([("f", '{"a":{"n":')]).partition('"n":')[0] + '"n":'
    matcher = compiler().compile(guide).matcher()
    assert not all(map(matcher.accept, spelt(start, is_special=True)))
