"""Calls as the chat templates of models write them, with values in each other: the grammar takes
them, and what is read is what was called."""

from __future__ import annotations

import json

import pytest
from one_compiler import compiler_of
from read_outputs import cut, events_of, form_of, no_token

from benchmarks.guides.walks import END, VOCABULARY
from benchmarks.spans import told
from specguide.config import GuideConfig
from specguide.errors import UnsupportedGuide
from specguide.guided.compile import GrammarCompiler
from specguide.guided.tools import Tool, tool_formats, tool_guide

LIMITS = GuideConfig(isolate_compiles=False)
PLACE = {
    "type": "object",
    "properties": {
        "x": {"type": "number"},
        "names": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
        "on": {"$ref": "#/$defs/day"},
    },
    "required": ["x"],
}
WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "at": PLACE,
        "tags": {"type": "array", "items": {"type": "string"}},
        "sure": {"type": "boolean"},
        "unit": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
    },
    "required": ["city"],
    "$defs": {"day": {"type": "object", "properties": {"weekday": {"enum": ["Mo", "Tu"]}}}},
}
TOOLS = [Tool("weather", WEATHER), Tool("time", {"type": "object", "properties": {}})]
AT = {"x": 1.5, "names": ["a}", "it's"], "on": {"weekday": "Mo"}}
ARGUMENTS = {"city": "New\nYork", "days": 3, "at": AT, "tags": ["p", "q"], "sure": True}
WRITTEN = {
    "gemma4": '<|tool_call>call:weather{at:{names:[<|"|>a}<|"|>,<|"|>it\'s<|"|>],on:{weekday:'
    '<|"|>Mo<|"|>},x:1.5},city:<|"|>New\nYork<|"|>,days:3,sure:true,tags:[<|"|>p<|"|>,<|"|>q<|"|>],'
    'unit:<|"|>C<|"|>}<tool_call|><|tool_call>call:time{}<tool_call|>',
    "gemma": "<start_function_call>call:weather{at:{names:[<escape>a}<escape>,<escape>it's<escape>]"
    ",on:{weekday:<escape>Mo<escape>},x:1.5},city:<escape>New\nYork<escape>,days:3,sure:true,tags:["
    "<escape>p<escape>,<escape>q<escape>],unit:<escape>C<escape>}<end_function_call>"
    "<start_function_call>call:time{}<end_function_call>",
    "lfm2": "<|tool_call_start|>[weather(city='New\nYork', days=3, at="
    '{"x": 1.5, "names": ["a}", "it\'s"], "on": {"weekday": "Mo"}}, '
    "tags=['p', 'q'], sure=True, unit='C'), time()]<|tool_call_end|>",
    "kimi_k3": '<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool="weather" index="1"'
    '<|sep|><|open|>argument key="city" type="string"<|sep|>New\nYork<|close|>argument<|sep|>'
    '<|open|>argument key="days" type="number"<|sep|>3<|close|>argument<|sep|>'
    '<|open|>argument key="at" type="object"<|sep|>{"x": 1.5, "names": ["a}", "it\'s"], '
    '"on": {"weekday": "Mo"}}<|close|>argument<|sep|>'
    '<|open|>argument key="tags" type="array"<|sep|>["p", "q"]<|close|>argument<|sep|>'
    '<|open|>argument key="sure" type="boolean"<|sep|>true<|close|>argument<|sep|>'
    '<|open|>argument key="unit" type="string"<|sep|>C<|close|>argument<|sep|><|close|>call<|sep|>'
    '<|open|>call tool="time" index="2"<|sep|><|close|>call<|sep|><|close|>tools<|sep|>'
    "<|close|>message<|sep|>",
    "minimax_m3": 'N<tool_call>\nN<invoke name="weather">N<city>New\nYorkN</city>N<days>3N</days>'
    "N<at>N<x>1.5N</x>N<names>N<item>a}N</item>N<item>it'sN</item>N</names>N<on>N<weekday>Mo"
    "N</weekday>N</on>N</at>N<tags>N<item>pN</item>N<item>qN</item>N</tags>N<sure>trueN</sure>"
    'N</invoke>\nN<invoke name="time">N</invoke>\nN</tool_call>'.replace("N<", "]<]minimax[>[<"),
}
A = '<|"|>a<|"|>'
WITHOUT_UNIT = ("minimax_m3",)

compiler = compiler_of(VOCABULARY, LIMITS)


def arguments_of(name: str) -> dict[str, object]:
    return ARGUMENTS | ({} if name in WITHOUT_UNIT else {"unit": "C"})


def takes(compiler: GrammarCompiler, name: str, text: str, **options: bool) -> bool:
    guide = tool_guide(tool_formats()[name], TOOLS, no_token, LIMITS, **options)
    matcher = compiler.compile(guide).matcher()
    return all(map(matcher.accept, text.encode())) and matcher.accept(END)


@pytest.mark.parametrize("name", WRITTEN)
def test_two_calls_as_the_template_writes_them(name, compiler):
    text, calls = WRITTEN[name], [("weather", arguments_of(name)), ("time", {})]
    assert takes(compiler, name, text) and takes(compiler, name, text, must_call=True)
    assert not takes(compiler, name, text, is_parallel=False)
    for size in (1, 7, 1000):
        form = form_of(tool_formats()[name], TOOLS)
        reasoning, said, found = told(events_of(form, cut(text.encode(), size)))
        assert (reasoning, said) == ("", "")
        assert [(tool, json.loads(arguments)) for tool, arguments in found] == calls


@pytest.mark.parametrize("name", ["gemma4", "gemma", "kimi_k3", "minimax_m3"])
def test_how_values_in_each_other_are_written(name):
    calls = [("weather", json.dumps(arguments_of(name))), ("time", "{}")]
    assert tool_formats()[name].message(calls) == WRITTEN[name]


@pytest.mark.parametrize(
    ("name", "written", "is_taken"),
    [
        ("gemma4", 'city:<|"|>a<|"|>,unit:None', True),
        ("gemma4", 'city:<|"|>a<|"|>,unit:7', False),
        ("gemma4", 'at:{names:[],x:1},city:<|"|>a<|"|>', True),
        ("gemma4", 'at:{names:[]},city:<|"|>a<|"|>', False),
        ("gemma4", 'at:{on:{},x:1},city:<|"|>a<|"|>', True),
        ("gemma4", 'at:{on:{weekday:<|"|>We<|"|>},x:1},city:<|"|>a<|"|>', False),
        ("gemma4", f'at:{{names:[{A},{A},{A}],x:1}},city:<|"|>a<|"|>', True),
        ("gemma4", f'at:{{names:[{A},{A},{A},{A}],x:1}},city:<|"|>a<|"|>', False),
        ("lfm2", "city='a', unit=None", True),
        ("lfm2", "city=\"it's\", tags=['a', \"b'\"]", True),
        ("lfm2", "city=a", False),
    ],
)
def test_values_that_the_schema_has_and_has_not(name, written, is_taken, compiler):
    one = tool_formats()[name]
    text = one.opening + "weather" + one.before_arguments + written + one.after_arguments + one.end
    assert takes(compiler, name, text) == is_taken


def test_an_optional_text_is_told_from_no_text(compiler):
    one = tool_formats()["kimi_k3"]
    for kind, text, value in (("string", "null", "null"), ("null", "null", None)):
        call = WRITTEN["kimi_k3"].replace('type="string"<|sep|>C', f'type="{kind}"<|sep|>{text}')
        assert takes(compiler, "kimi_k3", call)
        _, _, [(_, arguments), _] = told(events_of(form_of(one, TOOLS), [call.encode()]))
        assert json.loads(arguments)["unit"] == value
    wrong = WRITTEN["kimi_k3"].replace('type="string"<|sep|>C', 'type="number"<|sep|>1')
    assert not takes(compiler, "kimi_k3", wrong)


def test_a_name_inside_that_has_a_special_token_in_it():
    inside = {"type": "object", "properties": {"a<|tool_call>": {"type": "string"}}}
    tool = Tool("f", {"type": "object", "properties": {"at": inside}}, "tools[0]")
    with pytest.raises(UnsupportedGuide, match="cannot be named") as caught:
        tool_guide(tool_formats()["gemma4"], [tool], {"<|tool_call>": 300}.get, LIMITS)
    assert caught.value.param == "tools[0]"
