"""Tool calls: how families write them, the grammar that enforces them, and reading them while they
are written."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace as Server
from typing import Any

import jsonschema
import msgspec
import numpy as np
import pytest
from read_outputs import cut, events_of, form_of
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, pre_tokenizers

from benchmarks.spans import told as told_of
from specguide.config import GuideConfig
from specguide.engine import RequestDelta
from specguide.errors import InvalidGuide, InvalidParams, UnsupportedGuide
from specguide.guide import Guide
from specguide.guided.compile import GrammarCompiler
from specguide.guided.reading import OutputForm, SpelledTokens
from specguide.guided.tools import (
    Tool,
    ToolFormat,
    choose_tool_format,
    tool_formats,
    tool_guide,
)
from specguide.params import SamplingParams
from specguide.server.apis.api import rendered, stream_objects
from specguide.server.apis.chat import ChatRenderer
from specguide.server.apis.responses.responses import ResponseRenderer
from specguide.server.bodies.requests import ChatRequest, ResponsesRequest
from specguide.server.running.run import read
from specguide.server.tasks.events import Arguments, CallBegin, Event
from specguide.server.tasks.messages import template_messages
from specguide.server.tasks.task import Task
from specguide.server.tasks.tool_choice import ToolChoice
from specguide.server.tasks.tools import function_of, tools_of
from specguide.tokenizer import Tokenizer

LIMITS = GuideConfig()
WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 8}, "days": {"enum": [1, 2]}},
    "required": ["city"],
    "additionalProperties": False,
}
TIME = {
    "type": "object",
    "properties": {"zone": {"enum": ["UTC", "CET"]}},
    "required": ["zone"],
    "additionalProperties": False,
}
TOOLS = [Tool("get.weather", WEATHER), Tool("time", TIME)]
CALLS = [("get.weather", '{"city": "}\\"</tool"}'), ("time", '{"zone": "CET"}')]

GOLDEN = {
    "hermes": '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>\n'
    '<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>',
    "mistral": '[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": '
    "{}}]",
    "mistral_args": '[TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]g[ARGS]{}',
    "mistral_ids": '[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}, "id": "000000000"}, '
    '{"name": "g", "arguments": {}, "id": "000000001"}]',
    "mistral_nemo": '[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}, "id": "000000000"}, '
    '{"name": "g", "arguments": {}, "id": "000000001"}]',
    "mistral_call_id": '[TOOL_CALLS]f[CALL_ID]000000000[ARGS]{"a": 1}'
    "[TOOL_CALLS]g[CALL_ID]000000001[ARGS]{}",
    "deepseek_v3": '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{"a": '  # noqa: E501
    "1}\n```"
    "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "deepseek_v31": '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": 1}<｜tool▁call▁end｜>'  # noqa: E501
    "<｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "qwen3_coder": "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n"
    "</tool_call>\n<tool_call>\n<function=g>\n</function>\n</tool_call>",
    "minimax_m2": '<minimax:tool_call>\n<invoke name="f">\n<parameter name="a">1</parameter>\n'
    '</invoke>\n<invoke name="g">\n</invoke>\n</minimax:tool_call>',
    "glm45": "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>\n"
    "<tool_call>g\n</tool_call>",
    "gemma": "<start_function_call>call:f{a:1}<end_function_call>"
    "<start_function_call>call:g{}<end_function_call>",
    "llama4_pythonic": "<|python_start|>[f(a=1), g()]<|python_end|>",
    "granite": '<|tool_call|>[{"name": "f", "arguments": {"a": 1}}, '
    '{"name": "g", "arguments": {}}]',
    "phi4": 'functools[{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}]',
    "kimi_k2": "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0"
    '<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|><|tool_call_begin|>functions.g:1'
    "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
    "apertus": '<|tools_prefix|>[{"f": {"a": 1}}, {"g": {}}]<|tools_suffix|>',
    "apriel": '<tool_calls>[{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}]'
    "</tool_calls>",
    "nemotron": '<TOOLCALL>[{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}]'
    "</TOOLCALL>",
    "seed_oss": "<seed:tool_call>\n<function=f>\n<parameter=a>1</parameter>\n</function>\n"
    "</seed:tool_call>\n<seed:tool_call>\n<function=g>\n</function>\n</seed:tool_call>",
    "deepseek_v32": '<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n'
    '<｜DSML｜parameter name="a" string="false">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
    '<｜DSML｜invoke name="g">\n'
    "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
    "deepseek_v4": '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="f">\n<｜DSML｜parameter name="a" '
    'string="false">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n<｜DSML｜invoke name="g">\n\n'
    "</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
    "minimax_m1": '<tool_calls>\n{"name": "f", "arguments": {"a": 1}}\n'
    '{"name": "g", "arguments": {}}\n</tool_calls>',
    "functionary": '<function=f>{"a": 1}</function><function=g>{}</function>',
    "lfm2": "<|tool_call_start|>[f(a=1), g()]<|tool_call_end|>",
    "ling3": "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>\n"
    "<tool_call>g\n\n</tool_call>",
    "laguna": "<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>"
    "<tool_call>g</tool_call>",
    "gemma4": "<|tool_call>call:f{a:1}<tool_call|><|tool_call>call:g{}<tool_call|>",
    "smollm3": '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>\n'
    '<tool_call>\n{"name": "g", "arguments": {}}\n</tool_call>',
    "step35": "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n"
    "</tool_call><tool_call>\n<function=g>\n</function>\n</tool_call>",
    "hy3": "<tool_calls:opensource>\n<tool_call:opensource>f<tool_sep:opensource>\n"
    "<arg_key:opensource>a</arg_key:opensource>\n<arg_value:opensource>1</arg_value:opensource>\n"
    "</tool_call:opensource>\n<tool_call:opensource>g<tool_sep:opensource>\n"
    "</tool_call:opensource>\n</tool_calls:opensource>",
    "command": '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "f", "parameters": '
    '{"a": 1}},\n    {"tool_call_id": "1", "tool_name": "g", "parameters": {}}\n]<|END_ACTION|>',
    "north": '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "f", "parameters": '
    '{"a": 1}},\n    {"tool_call_id": "1", "tool_name": "g", "parameters": {}}\n]<|END_ACTION|>',
    "kimi_k3": "<|close|>response<|sep|><|open|>tools<|sep|>"
    '<|open|>call tool="f" index="1"<|sep|><|open|>argument key="a" type="number"<|sep|>1'
    '<|close|>argument<|sep|><|close|>call<|sep|><|open|>call tool="g" index="2"<|sep|>'
    "<|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>",
    "minimax_m3": ']<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="f">]<]minimax[>[<a>1'
    ']<]minimax[>[</a>]<]minimax[>[</invoke>\n]<]minimax[>[<invoke name="g">'
    "]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>",
    "functionary_v32": 'f\n{"a": 1}>>>g\n{}',
    "minicpm5": '<function name="f"><param name="a">1</param></function>\n'
    '<function name="g"></function>',
    "solar_open": "<|tool_calls|><|tool_call:begin|>0000000000<|tool_call:name|>f<|tool_call:args|>"
    '{"a": 1}<|tool_call:end|><|tool_call:begin|>0000000001<|tool_call:name|>g<|tool_call:args|>{}'
    "<|tool_call:end|><|calls|>",
    "firefunction": ' functools[{"name": "f", "arguments": {"a": 1}}, '
    '{"name": "g", "arguments": {}}]',
    "glm47": "<tool_call>f<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>"
    "<tool_call>g</tool_call>",
}


@pytest.fixture(scope="module", params=[True, False], ids=["special tokens", "no special tokens"])
def tokenizer(request) -> Tokenizer:
    """A tokenizer of bytes; the marks of all formats are special tokens, or text."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Backend(models.BPE({char: token for token, char in enumerate(alphabet)}, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    marks = {mark for one in tool_formats().values() for mark in one.special_tokens}
    backend.add_special_tokens(["<end>", *(sorted(marks) if request.param else [])])
    return Tokenizer(backend, [backend.token_to_id("<end>")])


@pytest.fixture(scope="module")
def compiler(tokenizer):
    compiler = GrammarCompiler(tokenizer.vocabulary(), LIMITS)
    yield compiler
    compiler.close()


def special(tokenizer: Tokenizer) -> Any:
    vocabulary = tokenizer.vocabulary()

    def token(text: str) -> int | None:
        found = tokenizer.token_id(text)
        return None if found is None or vocabulary.token_bytes[found] else found

    return token


def accepts(compiler: GrammarCompiler, tokenizer: Tokenizer, guide: Any, text: str) -> bool:
    """Whether the guide takes the whole of a text."""
    matcher = compiler.compile(guide).matcher()
    return all(matcher.accept(token) for token in tokenizer.encode(text)) and matcher.accept(
        tokenizer.eos_token_ids[0]
    )


def test_the_words_and_calls_of_every_format_are_here():
    """Llama 3 writes one call, and what gpt-oss writes has tests of its own."""
    assert {name for _, name in TEMPLATES} == set(tool_formats())
    single = {name for name, one in tool_formats().items() if one.separator is None}
    assert set(GOLDEN) | single == set(tool_formats())


@pytest.mark.parametrize("name", GOLDEN)
def test_how_calls_are_written(name):
    assert tool_formats()[name].message([("f", '{"a": 1}'), ("g", "{}")]) == GOLDEN[name]


def test_what_is_an_answer_is_marked():
    one = tool_formats()["gpt_oss"]
    for size in (1, 5, 1000):
        for text, said in (
            (one.answer("<|channel|>"), "<|channel|>"),
            ("plain", "plain"),
            (one.before_answer[:-1], ""),
        ):
            events = events_of(form_of(one, TOOLS), cut(text.encode(), size))
            assert told_of(events) == ("", said, [])


def test_llama_writes_one_call():
    assert (
        tool_formats()["llama3_json"].message([("f", '{"a": 1}')])
        == '{"name": "f", "parameters": {"a": 1}}'
    )


TEMPLATES = [
    ("… <tool_call> …", "hermes"),
    ('Respond as {"name": function name, "parameters": dictionary of …}', "llama3_json"),
    ("[TOOL_CALLS] [", "mistral"),
    ("[TOOL_CALLS] … [ARGS]", "mistral_args"),
    ('[TOOL_CALLS] [ … \', "id": "\'', "mistral_ids"),
    ('[TOOL_CALLS][ … \', "id": "\'', "mistral_nemo"),
    ("[TOOL_CALLS] … [CALL_ID] … [ARGS]", "mistral_call_id"),
    ("<｜tool▁call▁begin｜> … ```json", "deepseek_v3"),
    ("<｜tool▁call▁begin｜>", "deepseek_v31"),
    ("dsml_token = '｜DSML｜' … + dsml_token + 'function_calls>…'", "deepseek_v32"),
    ("dsml_token = '｜DSML｜' … + dsml_token + 'tool_calls>…'", "deepseek_v4"),
    ('in <tool_calls></tool_calls> …\n{"name": <tool-name>, "arguments": …}', "minimax_m1"),
    ("<{start_tag}={function_name}>{parameters}{end_tag} … <function=f>", "functionary"),
    ("<|im_start|> … List of tools: [", "lfm2"),
    ("<role>ASSISTANT</role> … <tool_call> <arg_key>", "ling3"),
    ('<tool_call> "<arg_key>" ~ k ~ "</arg_key>" -}}', "laguna"),
    ("<|channel|>commentary … to=functions.f", "gpt_oss"),
    ("<tool_call> <function= <parameter=", "qwen3_coder"),
    ("<tool_call> <arg_key>", "glm45"),
    ("<tool_call>{f}<arg_key>{a}</arg_key><arg_value>{1}</arg_value>", "glm47"),
    ("<|tools_prefix|> <|tools_suffix|>", "apertus"),
    ("objects in <tool_call></tool_call> … <tool_calls>[{", "apriel"),
    ("<TOOLCALL>[{{", "nemotron"),
    ("<seed:tool_call> <function= <parameter=", "seed_oss"),
    ('<minimax:tool_call> <invoke name="f"> <parameter name="a">', "minimax_m2"),
    ("<start_function_call> <escape>", "gemma"),
    ("<|python_start|> [func_name1(params_name1=params_value1", "llama4_pythonic"),
    ("<|tool_call|>", "granite"),
    ("<|tool_call>call:f{ <tool_call|>", "gemma4"),
    ("{% if xml_tools %}<tool_call>", "smollm3"),
    ("<tool_call> <function= <parameter= <|im_start|>tool_response", "step35"),
    ("{% set HYTK = ':opensource' %} '<tool_calls{}>' '<arg_key{}>'", "hy3"),
    ('<|START_ACTION|>[ {"tool_call_id": "0" <|START_RESPONSE|>', "command"),
    ('<|START_ACTION|>[ {"tool_call_id": "0" <|START_TEXT|>', "north"),
    ("<|open|> <|close|> <|sep|>", "kimi_k3"),
    (']<]minimax[>[ <tool_call> <invoke name="f">', "minimax_m3"),
    (">>>${recipient}", "functionary_v32"),
    ("role_sep='<|role_sep|>', message_sep='<|message_sep|>' 'function call'", "gigachat3"),
    ("<|role_sep|> <|message_sep|> 'function call' <|function_call|>", "gigachat31"),
    ("<|tool|> <|/tool|>", "phi4"),
    ('<function name="f"> <param name="a"><![CDATA[', "minicpm5"),
    ("<|tool_call:begin|>…<|tool_call:args|>", "solar_open"),
    ("functools[{}] … Available functions as JSON spec:", "firefunction"),
    ("<|tool_calls_section_begin|> <|tool_call_argument_begin|>", "kimi_k2"),
]


@pytest.mark.parametrize(("template", "name"), TEMPLATES)
def test_a_format_is_chosen_by_the_chat_template(template, name):
    assert (
        choose_tool_format(None, template).name == name
        and choose_tool_format("hermes", template).name == "hermes"
    )
    assert [one.name for one in tool_formats().values() if one.fits(template)] == [name]


@pytest.mark.parametrize(
    ("name", "template"),
    [
        ("klingon", "<tool_call>"),
        (None, "a plain one"),
        (None, None),
        (None, "<tool_call><function=x"),
    ],
)
def test_a_format_that_is_not_known(name, template):
    with pytest.raises(InvalidParams, match=", ".join(sorted(tool_formats()))) as caught:
        choose_tool_format(name, template)
    assert caught.value.param == "tool_format"


@pytest.mark.parametrize("one", tool_formats().values(), ids=tool_formats())
def test_what_the_grammar_takes(one: ToolFormat, tokenizer, compiler):
    def takes(text: str, **options: Any) -> bool:
        return accepts(
            compiler, tokenizer, tool_guide(one, TOOLS, special(tokenizer), LIMITS, **options), text
        )

    first, second = (one.message([call]) for call in CALLS)
    for options in (dict(), dict(must_call=True), dict(answer={"type": "integer"})):
        assert takes(first, **options) and takes(second, **options)
        assert not takes(first[:-1], **options)
        for wrong in (
            ("other", "{}"),
            ("time", '{"zone": "GMT"}'),
            ("time", "{}"),
            ("get.weather", '{"zone": "CET"}'),
        ):
            assert not takes(one.message([wrong]), **options)
        both = one.message(CALLS)
        assert takes(both, **options) == (one.separator is not None)
        assert not takes(both, is_parallel=False, **options)
    for text in ("Hello. \n{}", "<tool", "ü"):
        assert (
            takes(one.answer(text))
            and not takes(one.answer(text), must_call=True)
            and not takes(one.answer(text), answer={"type": "integer"})
        )
        assert takes(one.message(CALLS[:1], text))
    assert not takes("Hello. " + one.trigger + "x")
    number = one.answer("12")
    assert takes(number, answer={"type": "integer"}) and not takes(number, must_call=True)


@pytest.mark.parametrize("one", tool_formats().values(), ids=tool_formats())
@pytest.mark.parametrize("text", ["", 'Wait: <tool [TOOL {"nam ', "\n"])
def test_calls_are_read_in_pieces_of_any_size(one: ToolFormat, text: str):
    calls = CALLS if one.separator is not None else CALLS[:1]
    message, rng = one.message(calls, text).encode(), random.Random(1)
    text = text if one.has_lead else ""
    for size in (1, 2, 7, len(message)):
        stretches, start = list[bytes](), 0
        while start < len(message):
            stretches.append(message[start : start + (size if size < 7 else rng.randint(1, size))])
            start += len(stretches[-1])
        assert told_of(events_of(form_of(one, TOOLS), stretches)) == ("", text, calls)


def written(
    tokenizer: Tokenizer, one: ToolFormat, text: str, size: int
) -> tuple[Task, list[Event]]:
    """A task whose answer is this text, and its events where an engine tells `size` tokens at a
    time."""
    table = tokenizer.vocabulary().token_bytes
    spelled = SpelledTokens(table, tokenizer.eos_token_ids)
    server = Server(tokenizer=tokenizer, special_token=special(tokenizer), spelled=spelled)
    tokens = [*tokenizer.encode(text), tokenizer.eos_token_ids[0]]
    windows = [tuple(tokens[start : start + size]) for start in range(0, len(tokens), size)]
    deltas = [RequestDelta("", window) for window in windows]
    guide = tool_guide(one, TOOLS, special(tokenizer), LIMITS)
    task = Task("small", ([1],), SamplingParams(guide=guide))

    async def come() -> AsyncIterator[RequestDelta]:
        for delta in [*deltas[:-1], msgspec.structs.replace(deltas[-1], finish_reason="stop")]:
            yield delta

    async def events() -> list[Event]:
        return [event async for event in read(server, task, 0, come())]

    return task, asyncio.run(events())


async def told_again(events: list[Event]) -> AsyncIterator[Event]:
    for event in events:
        yield event


def streamed(renderer: Any, events: list[Event]) -> list[dict[str, Any]]:
    """What a renderer tells of them."""

    async def all_of_them() -> list[dict[str, Any]]:
        return [one async for one in stream_objects(renderer, told_again(events))]

    return asyncio.run(all_of_them())


def test_a_chat_stream_says_nothing_before_the_first_token(tokenizer):
    """Clients take its first chunk for the time to the first token."""
    one = next(iter(tool_formats().values()))
    task, events = written(tokenizer, one, one.message(CALLS[:1], "So: "), 1)
    renderer = ChatRenderer(ChatRequest(model="small", messages=[], stream=True), task)
    assert not list(renderer.begin())
    chunks = [chunk for event in events for chunk in renderer.take(event)]
    role, *others = (chunk["choices"][0]["delta"] for chunk in chunks)
    assert role == {"role": "assistant", "content": ""}
    assert others and not any("role" in other for other in others)


@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize("one", tool_formats().values(), ids=tool_formats())
def test_chat_tells_all_calls_of_one_window(one: ToolFormat, size: int, tokenizer):
    calls = CALLS if one.separator is not None else CALLS[:1]
    task, events = written(tokenizer, one, one.message(calls, "So: "), size)
    body = ChatRequest(model="small", messages=[])
    content, found = "", dict[int, dict[str, str]]()
    *answered, last = (chunk["choices"][0] for chunk in streamed(ChatRenderer(body, task), events))
    for choice in answered:
        content += choice["delta"].get("content", "")
        for call in choice["delta"].get("tool_calls", ()):
            if "id" in call:
                assert call["index"] == len(found) and call["type"] == "function"
                found[call["index"]] = {
                    "id": call["id"],
                    "name": call["function"]["name"],
                    "arguments": "",
                }
            found[call["index"]]["arguments"] += call["function"]["arguments"]
    assert [(call["name"], call["arguments"]) for call in found.values()] == calls and content == (
        "So: " if one.has_lead else ""
    )
    assert (
        len({call["id"] for call in found.values()}) == len(calls)
        and last["finish_reason"] == "tool_calls"
    )
    whole = asyncio.run(rendered(ChatRenderer(body, task), told_again(events)))
    message = whole["choices"][0]["message"]
    assert [
        (call["function"]["name"], call["function"]["arguments"]) for call in message["tool_calls"]
    ] == calls


@pytest.mark.parametrize("size", [1, 4, 1000])
@pytest.mark.parametrize("one", tool_formats().values(), ids=tool_formats())
def test_responses_tell_all_calls_of_one_window(one: ToolFormat, size: int, tokenizer):
    calls = CALLS if one.separator is not None else CALLS[:1]
    task, events = written(tokenizer, one, one.message(calls, "So: "), size)
    renderer = ResponseRenderer(ResponsesRequest(model="small", input="x"), task)
    found = [
        event
        for event in streamed(renderer, events)
        if event["type"] == "response.output_item.done"
    ]
    assert [event["output_index"] for event in found] == list(range(len(found)))
    if one.has_lead:
        assert found.pop(0)["item"]["content"][0]["text"] == "So: "
    assert [(event["item"]["name"], event["item"]["arguments"]) for event in found] == calls
    assert all(event["item"]["status"] == "completed" for event in found)


def test_a_message_that_is_cut():
    """It is told as what it was when it was cut."""
    form, half = form_of(tool_formats()["hermes"], TOOLS), '<tool_call>\n{"name": "ti'
    assert told_of(events_of(form, [b"Hi <tool_c"])) == ("", "Hi <tool_c", [])
    assert told_of(events_of(form, [half.encode()])) == ("", "", [])
    begun = (half + 'me", "arguments": {"zone": "}').encode()
    assert events_of(form, [begun]) == [CallBegin(0, "time"), Arguments(0, '{"zone": "}')]


@pytest.mark.parametrize(
    ("definition", "words", "param"),
    [
        ({"type": "web_search"}, "found type 'web_search'", "tools[0]"),
        ({"type": "function"}, "1 to 128", "tools[0].name"),
        ({"type": "function", "function": 3}, "must be", "tools[0]"),
        (
            {"type": "function", "name": "a", "parameters": {"type": "string"}},
            "of type object",
            "tools[0].parameters",
        ),
        (
            {"type": "function", "function": {"name": "a b"}},
            "1 to 128 letters",
            "tools[0].function.name",
        ),
        (
            {"type": "function", "function": {"name": "a", "parameters": {"type": "string"}}},
            "of type object",
            "tools[0].function.parameters",
        ),
        (
            {"name": "a", "input_schema": {"type": "object"}},
            "must be called parameters",
            "tools[0].input_schema",
        ),
        (
            {"type": "function", "function": {"name": "a", "inputSchema": {"type": "object"}}},
            "must be called parameters",
            "tools[0].function.inputSchema",
        ),
        (
            {"type": "function", "function": {"name": "a", "schema": {"type": "object"}}},
            "must be called parameters",
            "tools[0].function.schema",
        ),
        (
            {"type": "function", "function": {"name": "a"}, "parameters": {"type": "object"}},
            "must be within the inner function",
            "tools[0].parameters",
        ),
    ],
)
def test_tools_that_are_refused(definition, words, param):
    with pytest.raises(InvalidParams, match=words) as refusal:
        tools_of([definition])
    assert refusal.value.param == param


def test_schemas_of_tools_are_left_to_the_compiler(compiler, tokenizer):
    """The compiler runs where it can be killed; its error says which schema it is about, so that
    the field can be named."""
    x = {"type": "array", "items": {"type": "boolean"}, "minItems": 3}  # items that differ run out
    tools = tools_of(
        [
            {
                "type": "function",
                "function": {
                    "name": name,
                    "parameters": {"properties": {"x": {**x, "uniqueItems": name == "b"}}},
                },
            }
            for name in "ab"
        ]
    )
    for answer in (None, Guide(json_object=True)):
        choice = ToolChoice(tools)
        guide = choice.guide(
            tool_formats()["hermes"], special(tokenizer), LIMITS, is_parallel=True, answer=answer
        )
        with pytest.raises(UnsupportedGuide, match="uniqueItems at /properties/x") as refusal:
            compiler.compile(guide)
        assert refusal.value.part is not None
        assert (
            choice.schema_params(answer, guide.layout)[refusal.value.part]
            == "tools[1].function.parameters"
        )


def _compiled(schema: dict[str, Any], compiler, tokenizer):
    """The outcome of compiling a tool with an argument of this schema."""
    parameters = {"type": "object", "properties": {"x": schema}, "required": ["x"]}
    function = {"name": "a", "parameters": parameters}
    choice = ToolChoice(tools_of([{"type": "function", "function": function}]))
    return compiler.compile(
        choice.guide(
            tool_formats()["hermes"], special(tokenizer), LIMITS, is_parallel=True, answer=None
        )
    )


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"enum": True}},
        {"type": "object", "properties": {"enum": {"type": "integer", "minimum": 2**60 + 1}}},
        {"const": {"enum": 5}},
        {"default": {"enum": True}},
        {"examples": [{"enum": None}, {"minimum": 2**60 + 1}]},
        {"type": "integer", "maximum": 10**400},
        {"type": "number", "minimum": -(10**400)},
    ],
)
def test_schemas_of_tools_with_words_that_are_no_keywords(schema, compiler, tokenizer):
    _compiled(schema, compiler, tokenizer)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"enum": None}, "enum at /properties/x/enum"),
        ({"enum": 5}, "enum at /properties/x/enum"),
        ({"type": "integer", "minimum": 10**400}, "minimum is beyond all doubles"),
        ({"type": "number", "maximum": -(10**400)}, "maximum is beyond all doubles"),
        ({"enum": [[2**60 + 1]]}, "some backends round 1152921504606846977"),
    ],
)
def test_schemas_of_tools_that_nothing_enforces(schema, words, compiler, tokenizer):
    with pytest.raises(InvalidGuide, match=words) as refusal:
        _compiled(schema, compiler, tokenizer)
    named = "tools[0].function.parameters"
    assert refusal.value.param == named or refusal.value.part == 0


def test_nulls_are_as_if_left_out():
    function = {"name": "a", "description": None, "parameters": None, "strict": None}
    plain = tools_of([{"function": {"name": "a"}}])
    one = {"type": None, "function": function}
    assert tools_of([one]) == plain and function_of(one) == {"name": "a"}
    [beside] = tools_of([{"type": None, "function": None, **function}])
    assert beside == replace(plain[0], param="tools[0].parameters")
    choice = {"type": "allowed_tools", "allowed_tools": None, "mode": None, "tools": [one]}
    assert ToolChoice.of(choice, plain) == ToolChoice(plain)
    call = {"id": "c", "type": None, "function": {"name": "a", "arguments": None}}
    [message] = template_messages([{"role": "assistant", "tool_calls": [call]}])
    assert message["tool_calls"][0]["function"]["arguments"] == {}


def test_two_tools_of_one_name():
    same = {"type": "function", "function": {"name": "a"}}
    with pytest.raises(InvalidParams, match="two tools") as caught:
        tools_of([same, same])
    assert caught.value.param == "tools[1].function.name"


def test_a_function_without_parameters_takes_none(tokenizer, compiler):
    [tool] = tools_of([{"type": "function", "function": {"name": "a"}}])
    one = tool_formats()["hermes"]
    guide = tool_guide(one, [tool], special(tokenizer), LIMITS, must_call=True)
    assert accepts(compiler, tokenizer, guide, one.message([("a", "{}")]))
    assert not accepts(compiler, tokenizer, guide, one.message([("a", '{"x": 1}')]))


def test_arguments_match_the_schema_by_another_judge(tokenizer, compiler):
    """Random walks through the grammar, a byte at a time."""
    rng, one = random.Random(3), tool_formats()["hermes"]
    guide = tool_guide(one, TOOLS, special(tokenizer), LIMITS, must_call=True, is_parallel=False)
    grammar, form = compiler.compile(guide), OutputForm.of(guide, None)
    schemas = {tool.name: tool.parameters for tool in TOOLS}
    vocabulary = tokenizer.vocabulary()
    for _ in range(20):
        matcher, tokens, row = grammar.matcher(), [], np.zeros(vocabulary.num_words, np.int32)
        while not matcher.is_terminated and len(tokens) < 400:
            matcher.fill(row)
            allowed = np.flatnonzero(
                np.unpackbits(row.view(np.uint8), bitorder="little")[: len(vocabulary)]
            )
            tokens.append(int(rng.choice(allowed)))
            assert matcher.accept(tokens[-1])
        assert matcher.is_terminated
        spelled = SpelledTokens(vocabulary.token_bytes, tokenizer.eos_token_ids)
        events = events_of(form, [b"".join(spelled[token] for token in tokens)])
        assert isinstance(events[0], CallBegin)
        arguments = "".join(event.text for event in events if isinstance(event, Arguments))
        if "\ufffd" not in arguments:
            jsonschema.validate(json.loads(arguments), dict(schemas[events[0].name]))


def test_five_hundred_tools(tokenizer, compiler):
    tools = [
        Tool(f"tool_{i}", {**WEATHER, "required": ["city", "days"][: 1 + i % 2]})
        for i in range(500)
    ]
    one, start = tool_formats()["hermes"], time.perf_counter()
    guide = tool_guide(one, tools, special(tokenizer), LIMITS, must_call=True)
    assert accepts(
        compiler, tokenizer, guide, one.message([("tool_499", '{"city": "Rome", "days": 2}')])
    )
    assert not accepts(compiler, tokenizer, guide, one.message([("tool_499", '{"city": "Rome"}')]))
    assert not accepts(compiler, tokenizer, guide, one.message([("tool_500", '{"city": "Rome"}')]))
    assert time.perf_counter() - start < 20
