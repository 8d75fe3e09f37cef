"""Reasoning over HTTP: how families write it, telling it from the answer, guides behind it, and
each API's words for it."""

from __future__ import annotations

import json
import random

import anthropic
import httpx
import jsonschema
import pytest
from live_server import Server
from read_outputs import events_of, no_token

from benchmarks.spans import told
from specguide.config import EngineConfig, SpecConfig
from specguide.errors import InvalidParams
from specguide.guided.reading import OutputForm, ReasoningMarks
from specguide.guided.reasoning_formats import choose_reasoning_format, reasoning_formats
from specguide.server.config import ServerConfig
from specguide.server.tasks.task import ExpectedReasoning

QUESTION = [{"role": "user", "content": "My name is Anna and I am 31 years old."}]
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
TOOL = {"type": "function", "function": {"name": "note", "parameters": PERSON}}
PROMPTS = {  # of a chat template: its text, and the end of a prompt
    "qwen3": "{% if enable_thinking is false %}<think>\n\n</think>{% endif %}",
    "glm45": "[gMASK]<sop>{% if not enable_thinking %}<think></think>{% endif %}",
    "deepseek_v31": "<｜Assistant｜>{% if thinking %}<think>{% else %}</think>{% endif %}",
    "deepseek_r1": "<｜Assistant｜><think>\n",
    "mistral": "[SYSTEM_PROMPT]{{ s }}[THINK]how[/THINK]",
    "gpt_oss": "<|start|>assistant<|channel|>analysis<|message|>{{ thinking }}<|end|>",
    "seed_oss": "{% set begin, end = '<seed:think>', '</seed:think>' %}<seed:bos>assistant\n",
    "gemma4": "{% if enable_thinking %}<|think|>{% endif %}<|channel>thought\n<channel|>",
    "hy3": "{% set HYTK = ':opensource' %}{{ '<think{}>'.format(HYTK) }}",
    "command": "<|START_THINKING|>a plan<|END_THINKING|><|START_RESPONSE|>",
    "north": "<|START_THINKING|>a plan<|END_THINKING|><|START_TEXT|>",
    "kimi_k3": "<|open|>think<|sep|><|close|>think<|sep|>{{ thinking_effort }}",
    "minimax_m3": "{% if thinking_mode == 'enabled' %}<mm:think>{% endif %}",
    "solar_open": "<|begin|>assistant<|think|>{{ message.reasoning }}<|end|><|begin|>assistant",
    "apertus": "{% set inner, outer = '<|inner_prefix|>', '<|inner_suffix|>' %}",
    "granite": "{% if thinking %}Write Here is my thought process: and more{% endif %}",
}


@pytest.mark.parametrize("name", PROMPTS)
def test_the_template_says_which_format(name):
    assert choose_reasoning_format(None, PROMPTS[name]) == reasoning_formats()[name]


def test_formats_by_name():
    assert set(PROMPTS) == set(reasoning_formats())
    assert choose_reasoning_format(None, "{{ messages }}") is None
    assert choose_reasoning_format("none", PROMPTS["qwen3"]) is None
    assert choose_reasoning_format("qwen3", None).name == "qwen3"
    with pytest.raises(
        InvalidParams, match=f"'odd' is unknown; known: none, {', '.join(sorted(PROMPTS))}"
    ):
        choose_reasoning_format("odd", None)


@pytest.mark.parametrize("has_tools", [True, False])
@pytest.mark.parametrize("name", PROMPTS)
@pytest.mark.parametrize(
    ("begins", "reasoning", "answer"),
    [
        (True, "a < b\n\nso </t", '{"x": "<think>"}'),
        (False, "why\n", "text"),
        (False, None, "  no section"),
        (True, "never ends", None),
    ],
)
def test_pieces_of_any_size_are_the_same(name, begins, reasoning, answer, has_tools):
    one = reasoning_formats()[name]
    expected = ExpectedReasoning(one, begins, answer="" if has_tools else one.answer)
    text = "" if reasoning is None else ("" if begins else one.begin + "\n") + reasoning
    behind = expected.end + "\n\n" if reasoning else expected.answer
    text += "" if answer is None else behind + answer
    begin = None if begins else one.begin
    marks = ReasoningMarks.of(expected.end, begin, expected.answer, no_token)
    for seed in range(20):
        rng, rest, stretches = random.Random(seed), text.encode(), list[bytes]()
        while rest:
            size = rng.randint(1, 9)
            stretches.append(rest[:size])
            rest = rest[size:]
        assert told(events_of(OutputForm(marks), stretches)) == (reasoning or "", answer or "", [])


@pytest.fixture(scope="module")
def server():
    """The shipped model, told that it reasons as Qwen3 does."""
    server = Server(
        EngineConfig(spec=SpecConfig(), max_batch_size=4),
        ServerConfig("small", reasoning_format="qwen3"),
    )
    yield server
    server.stop()


ASKED = {"model": "small", "messages": QUESTION, "temperature": 0.7, "seed": 3}
BUDGET = {"extra_body": {"max_reasoning_tokens": 12}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}


def test_the_guide_begins_behind_the_reasoning(client):
    done = client.chat.completions.create(
        **ASKED, max_completion_tokens=200, response_format=FORMAT, **BUDGET
    )
    message = done.choices[0].message
    assert message.reasoning_content and "<think>" not in message.reasoning_content
    jsonschema.validate(json.loads(message.content), PERSON)
    assert 0 < done.usage.completion_tokens_details.reasoning_tokens <= 40


def test_a_stream_is_the_same(client):
    asked = {**ASKED, "max_completion_tokens": 200, "response_format": FORMAT, **BUDGET}
    whole = client.chat.completions.create(**asked).choices[0].message
    reasoning = text = ""
    for chunk in client.chat.completions.create(**asked, stream=True):
        delta = chunk.choices[0].delta
        reasoning += getattr(delta, "reasoning_content", None) or ""
        text += delta.content or ""
        assert not (getattr(delta, "reasoning_content", None) and delta.content)
    assert (reasoning, text) == (whole.reasoning_content, whole.content)


def test_reasoning_has_the_names_of_sglang_and_of_vllm(client):
    asked = {**ASKED, "max_completion_tokens": 40, **BUDGET}
    whole = client.chat.completions.create(**asked).choices[0].message
    assert whole.reasoning_content and whole.reasoning == whole.reasoning_content
    deltas = [
        chunk.choices[0].delta for chunk in client.chat.completions.create(**asked, stream=True)
    ]
    assert "".join(getattr(one, "reasoning", "") for one in deltas) == whole.reasoning


def test_calls_come_behind_the_reasoning(client):
    done = client.chat.completions.create(
        **ASKED, max_completion_tokens=300, tools=[TOOL], tool_choice="required", **BUDGET
    )
    message = done.choices[0].message
    assert message.reasoning_content and done.choices[0].finish_reason == "tool_calls"
    for call in message.tool_calls:
        jsonschema.validate(json.loads(call.function.arguments), PERSON)


@pytest.mark.parametrize(
    "said",
    [
        {"reasoning_effort": "none"},
        {"reasoning": {"effort": "none"}},
        {"reasoning": {}, "reasoning_effort": "none"},
        {"enable_thinking": False},
        {"thinking": {"type": "disabled"}},
    ],
)
def test_none_switches_it_off(client, said):
    done = client.chat.completions.create(
        **ASKED, max_completion_tokens=200, response_format=FORMAT, extra_body=said
    )
    assert not hasattr(done.choices[0].message, "reasoning_content")
    jsonschema.validate(json.loads(done.choices[0].message.content), PERSON)
    assert done.usage.completion_tokens_details.reasoning_tokens == 0


def test_an_answer_without_thoughts_has_no_tokens_of_them(client):
    done = client.chat.completions.create(**{**ASKED, "temperature": 0}, max_completion_tokens=20)
    assert not hasattr(done.choices[0].message, "reasoning_content")
    assert done.usage.completion_tokens_details.reasoning_tokens == 0


def test_a_budget_of_free_text(client):
    """Such text is not whole where the token limit ends it."""
    asked = {**ASKED, "max_completion_tokens": 30, **BUDGET}
    done = client.chat.completions.create(**asked)
    [choice] = done.choices
    assert choice.message.reasoning_content and choice.message.content
    assert done.usage.completion_tokens_details.reasoning_tokens <= 40
    assert (choice.finish_reason, done.usage.completion_tokens) == ("length", 30)


def test_items_of_responses(client):
    asked = {"model": "small", "input": QUESTION, "temperature": 0}
    text = {"format": {"type": "json_schema", "name": "person", "schema": PERSON}}
    asked = {**asked, "text": text, "max_output_tokens": 200, **BUDGET}
    done = client.responses.create(**asked)
    assert [item.type for item in done.output] == ["reasoning", "message"]
    assert done.usage.output_tokens_details.reasoning_tokens > 0
    jsonschema.validate(json.loads(done.output_text), PERSON)
    thought = "".join(
        event.delta
        for event in client.responses.create(**asked, stream=True)
        if event.type == "response.reasoning_text.delta"
    )
    assert thought == done.output[0].content[0].text


def test_blocks_of_anthropic(server):
    thinking = {"type": "enabled", "budget_tokens": 12}
    asked = {"model": "small", "messages": QUESTION, "max_tokens": 200, "thinking": thinking}
    body = {"output_format": {"type": "json_schema", "schema": PERSON}}
    with anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0) as client:
        with client.messages.stream(**asked, extra_body=body) as stream:
            streamed = stream.get_final_message()
        off = client.messages.create(**{**asked, "thinking": {"type": "disabled"}}, extra_body=body)
        for thinking, message in ((asked["thinking"], streamed), ({"type": "disabled"}, off)):
            counted = client.messages.count_tokens(
                model="small", messages=QUESTION, thinking=thinking, extra_body=body
            )
            usage = message.usage
            assert counted.input_tokens == usage.input_tokens + usage.cache_read_input_tokens
    assert [block.type for block in streamed.content] == ["thinking", "text"]
    assert streamed.content[0].thinking
    assert [block.type for block in off.content] == ["text"]
    for message in (streamed, off):
        jsonschema.validate(json.loads(message.content[-1].text), PERSON)


@pytest.mark.parametrize("effort", ["odd", 3])
def test_efforts_that_are_none(server, effort):
    asked = {"messages": QUESTION, "max_tokens": 3}
    for path, body, field in (
        ("chat/completions", {**asked, "reasoning_effort": effort}, "reasoning_effort"),
        ("chat/completions", {**asked, "reasoning": {"effort": effort}}, "reasoning.effort"),
        ("responses", {"input": "a", "reasoning": {"effort": effort}}, "reasoning.effort"),
        ("responses", {"input": "a", "reasoning_effort": effort}, "reasoning_effort"),
        ("messages", {**asked, "output_config": {"effort": effort}}, "output_config.effort"),
    ):
        answer = httpx.post(f"{server.url}/v1/{path}", json={"model": "small", **body})
        error = answer.json()["error"]
        assert answer.status_code == 400 and field in (error.get("param") or error["message"])


@pytest.mark.parametrize("include", [False, True])
def test_a_stop_token_ends_free_text_of_a_model_that_reasons(client, include):
    asked = ASKED | {"max_completion_tokens": 20}
    [choice] = client.chat.completions.create(**asked, logprobs=True).choices
    tokens = [one.token for one in choice.logprobs.content]
    body = {"prompt": tokens[3], "add_special_tokens": False}
    told = httpx.post(str(client.base_url.join("../tokenize")), json=body).json()
    more = {"stop_token_ids": told["tokens"][-1:], "include_stop_str_in_output": include}
    [stopped] = client.chat.completions.create(**asked, extra_body=more).choices
    assert stopped.finish_reason == "stop"
    assert stopped.message.content == "".join(tokens[: tokens.index(tokens[3]) + include])
