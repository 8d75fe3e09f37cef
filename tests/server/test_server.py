"""The API server, live on the shipped model, driven by OpenAI's own client."""

from __future__ import annotations

import json

import httpx
import jsonschema
import pytest
from chat_bodies import USER, WEATHER, schema_format
from live_server import ask_and_leave

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


TIME = {
    "type": "function",
    "function": {
        "name": "get_time",
        "parameters": {
            "type": "object",
            "properties": {"zone": {"enum": ["UTC", "CET"]}},
            "required": ["zone"],
            "additionalProperties": False,
        },
    },
}


def test_chat_with_a_schema(client):
    done = client.chat.completions.create(
        model="small", messages=USER, temperature=0, response_format=schema_format(PERSON)
    )
    assert json.loads(done.choices[0].message.content) == {"name": "Anna", "age": 31}
    assert done.choices[0].finish_reason == "stop" and done.object == "chat.completion"
    assert done.usage.total_tokens == done.usage.prompt_tokens + done.usage.completion_tokens > 0


def test_a_stream_is_the_answer_in_pieces(client):
    asked = dict(
        model="small",
        messages=USER,
        temperature=0,
        response_format=schema_format(PERSON),
        n=2,
        seed=1,
    )
    whole = client.chat.completions.create(**asked)
    texts, reasons, usage = ["", ""], [None, None], None
    for chunk in client.chat.completions.create(
        **asked, stream=True, stream_options={"include_usage": True}
    ):
        for choice in chunk.choices:
            texts[choice.index] += choice.delta.content or ""
            reasons[choice.index] = choice.finish_reason or reasons[choice.index]
        usage = chunk.usage or usage
    assert texts == [choice.message.content for choice in whole.choices] and reasons == [
        "stop",
        "stop",
    ]
    not_cached = {"prompt_tokens_details": None}  # which of the prompts is there from before
    assert usage.model_copy(update=not_cached) == whole.usage.model_copy(update=not_cached)


def test_parse_with_pydantic(client):
    from pydantic import BaseModel

    class Person(BaseModel):
        name: str
        age: int

    done = client.chat.completions.parse(
        model="small", messages=USER, temperature=0, response_format=Person
    )
    assert done.choices[0].message.parsed == Person(name="Anna", age=31)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "choice",
    [
        "required",
        "auto",
        {"type": "function", "function": {"name": "get_time"}},
        {
            "type": "allowed_tools",
            "allowed_tools": {
                "mode": "required",
                "tools": [{"type": "function", "name": "get_time"}],
            },
        },
    ],
)
def test_tools(client, choice, stream):
    asked = dict(
        model="small",
        messages=[{"role": "user", "content": "What is the weather in Paris?"}],
        temperature=0,
        tools=[WEATHER, TIME],
        tool_choice=choice,
        max_completion_tokens=120,
        parallel_tool_calls=False,
    )
    if stream:
        calls, reason = {}, None
        for chunk in client.chat.completions.create(**asked, stream=True):
            for call in chunk.choices[0].delta.tool_calls or ():
                if call.id:
                    calls[call.index] = [call.function.name, ""]
                calls[call.index][1] += call.function.arguments
            reason = chunk.choices[0].finish_reason or reason
        found = list(map(tuple, calls.values()))
    else:
        done = client.chat.completions.create(**asked)
        found = [
            (call.function.name, call.function.arguments)
            for call in done.choices[0].message.tool_calls or ()
        ]
        reason = done.choices[0].finish_reason
    assert len(found) == 1 or choice == "auto"
    for name, arguments in found:
        tool = {"get_weather": WEATHER, "get_time": TIME}[name]
        jsonschema.validate(json.loads(arguments), tool["function"]["parameters"])
        assert reason == "tool_calls" and (name == "get_time" or not isinstance(choice, dict))


def test_several_calls_in_a_stream(client):
    """A message must not end yet, and so the model calls on."""
    asked = dict(
        model="small",
        messages=[{"role": "user", "content": "What is the weather in Paris?"}],
        temperature=0,
        tools=[WEATHER, TIME],
        tool_choice="required",
        max_completion_tokens=120,
        extra_body={"min_tokens": 60},
    )
    whole = [
        (call.function.name, call.function.arguments)
        for call in client.chat.completions.create(**asked).choices[0].message.tool_calls
    ]
    calls = {}
    for chunk in client.chat.completions.create(**asked, stream=True):
        for call in chunk.choices[0].delta.tool_calls or ():
            if call.id:
                calls[call.index] = [call.function.name, ""]
            calls[call.index][1] += call.function.arguments
    assert (
        list(map(tuple, calls.values())) == whole
        and len(whole) > 1
        and list(calls) == list(range(len(whole)))
    )


def test_a_conversation_with_a_tools_result(client):
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
    }
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "What is the weather in Paris?"}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "Sunny"},
    ]
    done = client.chat.completions.create(
        model="small", temperature=0, max_completion_tokens=20, tools=[WEATHER], messages=messages
    )
    assert done.choices[0].finish_reason in ("stop", "length", "tool_calls")


def test_log_probabilities(client):
    done = client.chat.completions.create(
        model="small",
        messages=USER,
        temperature=0,
        logprobs=True,
        top_logprobs=2,
        max_completion_tokens=5,
    )
    content = done.choices[0].logprobs.content
    assert len(content) == done.usage.completion_tokens and all(
        len(one.top_logprobs) == 2 for one in content
    )
    assert "".join(one.token for one in content).startswith(done.choices[0].message.content)


def test_spans(client, http):
    """Which tokens are of which field, and how likely they were."""
    asked = dict(model="small", messages=USER, temperature=0, logprobs=True)
    asked |= dict(tools=[WEATHER, TIME], tool_choice="required")
    extra = {"return_spans": True}
    [choice] = client.chat.completions.create(**asked, extra_body=extra).choices
    [call], logprobs = choice.message.tool_calls, [one.logprob for one in choice.logprobs.content]
    spans = choice.spans
    [name] = [span for span in spans if span["role"] == "name"]
    assert (name["tag"], name["tool"], name["call"]) == ("tool", call.function.name, 0)
    paths = [span["path"] for span in spans if span["role"] == "value"]
    assert paths == [f"/{key}" for key in json.loads(call.function.arguments)]
    for span in spans:
        assert sum(logprobs[span["start"] : span["end"]]) == pytest.approx(span["logprob"])
    streamed = []
    for chunk in client.chat.completions.create(**asked, extra_body=extra, stream=True):
        streamed += getattr(chunk.choices[0], "spans", ())
    assert [one | {"logprob": 0} for one in streamed] == [one | {"logprob": 0} for one in spans]
    whole = {"model": "small", "prompt": "x", "guided_json": {"enum": [[1]]}, "return_spans": True}
    found = http.post("/v1/completions", json=whole).json()["choices"][0]["spans"]
    assert [(span["role"], span["path"]) for span in found] == [
        ("punctuation", ""),
        ("value", "/0"),
        ("punctuation", ""),
    ]
    assert http.post("/v1/responses", json={"input": "x", "return_spans": True}).status_code == 400


def test_faithful_answers(http):
    """Whole, streamed, and refused by the name of what does not go with it."""
    asked = {"model": "small", "messages": USER, "n": 3, "faithful": True, "seed": 1}
    asked |= {"guided_choice": ["31", "thirty"], "logprobs": True}
    choices = http.post("/v1/chat/completions", json=asked).json()["choices"]
    texts = {choice["index"]: choice["message"]["content"] for choice in choices}
    assert set(texts) == {0, 1, 2} and set(texts.values()) <= {"31", "thirty"}
    assert all(choice["finish_reason"] == "stop" for choice in choices)
    streamed = dict.fromkeys(texts, "")
    lines = http.post("/v1/chat/completions", json=asked | {"stream": True}).text.split("data: ")
    for chunk in map(json.loads, lines[1:-1]):
        for choice in chunk["choices"]:
            streamed[choice["index"]] += choice["delta"].get("content") or ""
    assert streamed == texts
    for more, param in [({"top_p": 0.5}, "top_p"), ({"guided_choice": None}, "faithful")]:
        answer = http.post("/v1/chat/completions", json=asked | more)
        assert answer.status_code == 400 and answer.json()["error"]["param"] == param


def test_completions(client):
    asked = dict(model="small", prompt=["One, two,", "A B C"], max_tokens=6, temperature=0)
    done = client.completions.create(**asked, n=1, logprobs=1)
    assert [choice.index for choice in done.choices] == [
        0,
        1,
    ] and done.usage.completion_tokens <= 12
    assert all(
        len(choice.logprobs.tokens) == len(choice.logprobs.token_logprobs) > 0
        for choice in done.choices
    )
    texts = ["", ""]
    for chunk in client.completions.create(**asked, stream=True):
        texts[chunk.choices[0].index] += chunk.choices[0].text
    assert texts == [choice.text for choice in done.choices]


@pytest.mark.parametrize(
    ("extra", "pattern"),
    [
        ({"guided_regex": "[a-c]{3}"}, "abc"),
        ({"structured_outputs": {"regex": "[a-c]{3}"}}, "abc"),
        ({"guided_choice": ["cab", "abba"]}, "abc"),
        ({"guided_grammar": 'root ::= "ab" | "ba"'}, "abc"),
    ],
)
def test_guides_as_vllm_has_them(client, extra, pattern):
    done = client.chat.completions.create(
        model="small", messages=USER, temperature=0, extra_body=extra
    )
    assert (
        set(done.choices[0].message.content) <= set(pattern)
        and done.choices[0].finish_reason == "stop"
    )


def test_models_and_tokens(client, http):
    assert [model.id for model in client.models.list()] == ["small"]
    found = http.post("/tokenize", json={"prompt": "Hello"}).json()
    assert found["count"] == len(found["tokens"])
    assert "Hello" in http.post("/detokenize", json={"tokens": found["tokens"]}).json()["prompt"]
    assert http.post("/tokenize", json={"messages": USER}).json()["count"] > found["count"]


def test_health_and_metrics(client, server):
    assert (
        httpx.get(f"{server.url}/health").json()
        == {"status": "ok"}
        == httpx.get(f"{server.url}/ready").json()
    )
    client.chat.completions.create(model="small", messages=USER, max_completion_tokens=2)
    text = httpx.get(f"{server.url}/metrics").text
    assert (
        'specguide_requests_finished_total{reason="length"}' in text
        and "specguide_ttft_seconds_bucket" in text
    )


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_frees_its_slot(server, stream):
    ask_and_leave(server, "/v1/chat/completions", stream, messages=USER, max_tokens=1500)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/playground/generate"])
def test_proxies_are_asked_to_pass_streams_on_as_they_come(http, path):
    asked = {"model": "small", "messages": USER, "max_tokens": 2, "stream": True}
    answer = http.post(path, json=asked)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-accel-buffering"] == "no"
