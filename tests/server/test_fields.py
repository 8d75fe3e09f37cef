"""What becomes of each field of a request: honoured, without effect, refused, or unknown."""

from __future__ import annotations

import json
import logging

import httpx
import pytest
from live_server import KEY
from pydantic import ValidationError

from specguide.errors import InvalidParams
from specguide.server.bodies import fields
from specguide.server.bodies.ignored import HEADER, UnknownFields, ignored_header
from specguide.server.bodies.requests import ChatRequest, CompletionRequest, ResponsesRequest

USER = [{"role": "user", "content": "Hi"}]
CHAT, COMPLETIONS, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
LEAST = {
    CHAT: {"messages": USER, "max_tokens": 2},
    COMPLETIONS: {"prompt": "One", "max_tokens": 2},
    RESPONSES: {"input": "Hi", "max_output_tokens": 2},
}
GET_TIME = {"name": "get_time", "parameters": {"type": "object", "properties": {}}}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}

CALL_WITHOUT_ARGUMENTS = {**CALL, "function": {"name": "f", "arguments": None}}


def replayed(*messages):
    return {"messages": [*USER, *messages, *USER]}


def items(*some):
    return {"input": [*USER, *some, *USER]}


EVERYWHERE = [
    {"store": True},
    {"service_tier": "flex"},
    {"user": "u"},
    {"metadata": {"a": "b"}},
    {"safety_identifier": "u"},
    {"prompt_cache_key": "k"},
    {"prompt_cache_retention": "24h"},
    {"prompt_cache_options": {"mode": "explicit"}},
    {"prediction": {"type": "content", "content": "x"}},
    {"verbosity": "low"},
    {"reasoning_effort": "high"},
    {"stream_options": {"include_obfuscation": True}},
    {"modalities": ["text"]},
    {"skip_special_tokens": True},
    {"use_beam_search": False},
    {"seed": -1},
    {"seed": -(2**63)},
    {"seed": 3.0, "top_k": 5.0, "min_tokens": 1.0},
    {"stop": ""},
    {"stop": ["", "x"]},
    {"top_p": 0},
    {"ignore_eos": None, "min_tokens": None, "priority": None, "top_k": None},
    {"no_such_field": {"a": [1]}},
    {"another_field": None},
    {"model": ""},
]
TAKEN = [(path, one) for path in LEAST for one in EVERYWHERE] + [
    (CHAT, {"max_tokens": 2, "max_completion_tokens": 1}),
    (CHAT, {"max_tokens": 2.0, "n": 1.0, "max_completion_tokens": 1.0}),
    (COMPLETIONS, {"max_tokens": 2.0, "logprobs": 1.0, "best_of": 1.0}),
    (CHAT, {"top_logprobs": 0}),
    (CHAT, {"tools": [{"type": "function", "function": {**GET_TIME, "name": "n" * 128}}]}),
    (CHAT, {"tools": [{"function": GET_TIME}]}),
    (CHAT, {"tools": [GET_TIME]}),
    (CHAT, {"response_format": {"type": "json_object", "schema": {"enum": [{}]}}}),
    (CHAT, {"functions": [GET_TIME], "function_call": "auto"}),
    (CHAT, replayed({"role": "assistant", "content": None})),
    (CHAT, replayed({"role": "user", "content": None})),
    (CHAT, replayed({"role": "user", "content": ["A", {"type": "text", "text": None}]})),
    (RESPONSES, items({"role": "user", "content": ["A", {"type": "input_text", "text": None}]})),
    (CHAT, replayed({"role": "assistant", "content": None, "refusal": "No."})),
    (CHAT, replayed({"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]})),
    (
        CHAT,
        replayed(
            {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "1"},
        ),
    ),
    (CHAT, replayed({"role": "assistant", "tool_calls": [CALL]})),
    (CHAT, replayed({"role": "assistant", "tool_calls": [CALL_WITHOUT_ARGUMENTS]})),
    (
        CHAT,
        replayed(
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": "c", "type": "custom", "custom": {"name": "f", "input": "x"}}
                ],
            },
            {"role": "tool", "tool_call_id": "c", "content": "1"},
        ),
    ),
    (CHAT, {"separate_reasoning": True, "stream_reasoning": False}),
    (CHAT, {"reasoning": {"effort": "high", "enabled": True, "exclude": False}}),
    (CHAT, {"guided_regex": "a", "structured_outputs": {"regex": "a", "backend": "xgrammar"}}),
    (CHAT, {"enable_thinking": False, "thinking": {"type": "disabled"}, "thinking_budget": 5}),
    (RESPONSES, {"include": ["reasoning.encrypted_content"]}),
    (RESPONSES, {"client_metadata": {"turn_id": "t"}}),
    (RESPONSES, {"reasoning": {"effort": "high", "summary": "auto"}}),
    (RESPONSES, {"text": {"verbosity": "low"}}),
    (RESPONSES, items({"type": "item_reference", "id": "rs_1"})),
    (RESPONSES, items({"type": "reasoning", "id": "rs_1", "summary": []})),
    (
        RESPONSES,
        items(
            {"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "x"},
            {"type": "custom_tool_call_output", "call_id": "c", "output": "y"},
        ),
    ),
    (
        RESPONSES,
        items({"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}),
    ),
]


@pytest.mark.parametrize(("path", "given"), TAKEN, ids=lambda one: json.dumps(one)[:60])
def test_what_is_taken(http, path, given):
    answer = http.post(path, json=LEAST[path] | given)
    assert answer.status_code == 200, answer.text
    assert answer.headers.get(HEADER) == ("no_such_field" if "no_such_field" in given else None)


@pytest.mark.parametrize(
    ("path", "given", "param"),
    [(path, {"use_beam_search": True}, "use_beam_search") for path in LEAST]
    + [
        (CHAT, {"modalities": ["text", "audio"]}, "modalities"),
        (CHAT, {"audio": {"voice": "x", "format": "wav"}}, "audio"),
        (CHAT, {"separate_reasoning": False}, "separate_reasoning"),
        (CHAT, {"input_ids": [1, 2]}, "input_ids"),
        (CHAT, {"min_new_tokens": 2}, "min_new_tokens"),
        (CHAT, {"reasoning": {"enabled": False}}, "reasoning.enabled"),
        (CHAT, {"reasoning": {"effort": "low", "max_tokens": 9}}, "reasoning.max_tokens"),
        (CHAT, {"web_search_options": {}}, "web_search_options"),
        (CHAT, {"prompt": "x"}, "prompt"),
        (CHAT, {"moderation": {"model": "omni-moderation-latest"}}, "moderation"),
        (RESPONSES, {"moderation": {"model": "omni-moderation-latest"}}, "moderation"),
        (CHAT, {"guided_regex": "a", "structured_outputs": {"regex": "b"}}, "guided_regex"),
        (CHAT, {"functions": [GET_TIME], "tools": []}, "functions"),
        (CHAT, {"functions": [GET_TIME], "tool_choice": "none"}, "tool_choice"),
        (CHAT, {"function_call": {"name": "f"}}, "function_call"),
        (
            CHAT,
            {"function_call": "none", "tools": [{"type": "function", "function": GET_TIME}]},
            "function_call",
        ),
        (CHAT, {"structured_outputs": {"whitespace_pattern": " "}}, "structured_outputs.white"),
        (COMPLETIONS, {"suffix": "x"}, "suffix"),
        (RESPONSES, {"n": 2}, "n"),
        (RESPONSES, {"include": ["everything"]}, "include[0]"),
        (RESPONSES, items({"type": "item_reference", "id": "msg_1"}), "input[1]"),
        (CHAT, {"grammar": 'root ::= "yes"'}, "grammar"),
        (CHAT, {"text": {"format": {"type": "json_object"}}}, "text"),
        (RESPONSES, {"max_tokens": 3}, "max_tokens"),
        (CHAT, {"nvext": {"guided_json": {"type": "object"}}}, "nvext"),
        (CHAT, {"extra_body": {"guided_regex": "a"}}, "extra_body"),
        (COMPLETIONS, {"sampling_params": {"temperature": 0}}, "sampling_params"),
        (COMPLETIONS, {"prompt_embeds": "AAAA"}, "prompt_embeds"),
        (COMPLETIONS, {"structural_tag": {}}, "structural_tag"),
        (COMPLETIONS, {"n_predict": 3}, "n_predict"),
        (COMPLETIONS, {"lora_request": "x"}, "lora_request"),
        (COMPLETIONS, {"top_logprobs": 2}, "top_logprobs"),
        (COMPLETIONS, {"stop_sequences": ["x"]}, "stop_sequences"),
        (CHAT, {"guided_decoding": {"regex": "a"}}, "guided_decoding"),
        (
            CHAT,
            {"response_format": {"type": "json_object", "json_schema": {"schema": {}}}},
            "response_format.json_schema",
        ),
        (
            COMPLETIONS,
            {"response_format": {"type": "regex", "regex": "a", "schema": {"type": "object"}}},
            "response_format.schema",
        ),
        (RESPONSES, {"text": {"format": {"type": "text", "schema": {}}}}, "text.format.schema"),
        (CHAT, {"system": "Be brief."}, "system"),
        (CHAT, {"output_config": {"format": {"type": "json_schema"}}}, "output_config"),
        (RESPONSES, {"logprobs": True}, "logprobs"),
        (RESPONSES, {"previous_input_messages": [{"role": "user"}]}, "previous_input_messages"),
    ],
    ids=lambda one: json.dumps(one)[:60],
)
def test_what_would_change_the_output_is_refused_by_name(http, path, given, param):
    answer = http.post(path, json=LEAST[path] | given)
    assert answer.status_code == 400 and answer.json()["error"]["param"].startswith(param)


@pytest.mark.parametrize(
    ("path", "given", "param", "told"),
    [
        (COMPLETIONS, {"prompt": [1, 2.5]}, "prompt[1]", "a valid integer"),
        (COMPLETIONS, {"prompt": ["a", [1]]}, "prompt[1]", "a valid string"),
        (COMPLETIONS, {"prompt": [[1], ["a"]]}, "prompt[1][0]", "a valid integer"),
        (COMPLETIONS, {"prompt": {"a": 1}}, "prompt", "a valid string or a valid list"),
        (CHAT, {"max_tokens": 2.5}, "max_tokens", "a valid integer"),
        (CHAT, {"stop": ["a", 1]}, "stop[1]", "a valid string"),
        (CHAT, {"stop": 1}, "stop", "a valid string or a valid list"),
        (CHAT, {"temperature": "hot", "stop": 1}, "temperature", "a valid number"),
    ],
    ids=str,
)
def test_of_a_value_of_several_types_what_is_wrong_is_told(http, path, given, param, told):
    error = http.post(path, json=LEAST[path] | given).json()["error"]
    assert error["param"] == param and error["message"] == f"{param}: Input should be {told}"


BODIES = {CHAT: ChatRequest, COMPLETIONS: CompletionRequest, RESPONSES: ResponsesRequest}


@pytest.mark.parametrize(("path", "body"), BODIES.items())
def test_the_table_says_of_each_field_one_thing(path, body):
    """Null is taken for all; what changes nothing in any value, the others in those named."""
    for name, verdict in body.beside.items():
        assert verdict.why and body.model_validate(LEAST[path] | {name: None})
        if name in body.model_fields:
            continue
        if isinstance(verdict, fields.NoEffect):
            assert not list(body.model_validate(LEAST[path] | {name: "x"}).unknown_fields())
            continue
        for value in verdict.unless:
            assert body.model_validate(LEAST[path] | {name: value})
        with pytest.raises(ValidationError, match=f"{name} is not supported"):
            body.model_validate(LEAST[path] | {name: "something"})


@pytest.mark.parametrize(("path", "body"), BODIES.items())
def test_null_and_defaults_are_as_if_left_out(path, body):
    least = body.model_validate(LEAST[path])
    optional = {
        field.alias or name: field.default
        for name, field in body.model_fields.items()
        if name not in LEAST[path]
    }
    for values in (optional, dict.fromkeys(optional)):
        assert body.model_validate(LEAST[path] | values) == least


def test_tokenizing_tells_what_it_ignores(http):
    for path, body in (
        ("/tokenize", {"prompt": "a"}),
        ("/detokenize", {"tokens": [5]}),
        ("/v1/messages/count_tokens", {"messages": USER}),
        ("/v1/responses/input_tokens", {"input": "a"}),
    ):
        answer = http.post(path, json=body | {"no_such_field": 1})
        assert answer.status_code == 200 and answer.headers[HEADER] == "no_such_field"


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
@pytest.mark.parametrize(
    ("given", "most"),
    [({"max_tokens": 5}, 1), ({"max_tokens": None}, 1), ({"max_completion_tokens": 20}, 2)],
)
def test_both_limits_hold(http, path, given, most):
    limits = {"max_completion_tokens": 1, "ignore_eos": True}
    answer = http.post(path, json=LEAST[path] | limits | given)
    assert answer.json()["usage"]["completion_tokens"] == most


def test_top_p_0_is_the_likeliest_token(http):
    def said(**given):
        return http.post(CHAT, json=LEAST[CHAT] | {"max_tokens": 8} | given).json()["choices"]

    assert said(top_p=0)[0]["message"] == said(temperature=0)[0]["message"]
    body = {"model": "small", "input": "hi", "max_output_tokens": 1, "allow_truncation": True}
    for asked, told in ((0, 0), (0.5, 0.5), (None, 1)):
        response = http.post("/v1/responses", json={**body, "top_p": asked})
        assert response.json()["top_p"] == told


def test_continuous_usage(http):
    options = {"include_usage": True, "continuous_usage_stats": True}
    for path in (CHAT, COMPLETIONS):
        body = LEAST[path] | {"stream": True, "stream_options": options, "max_tokens": 4}
        lines = http.post(path, json=body).text.split("\n\n")
        chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]
        counts = [chunk["usage"]["completion_tokens"] for chunk in chunks]
        assert counts == sorted(counts) and counts[-1] == counts[-2] > 0
        assert all(chunk["usage"]["prompt_tokens"] > 0 for chunk in chunks)


@pytest.mark.parametrize("stream", [False, True])
def test_old_functions_are_answered_in_the_old_way(client, stream):
    asked = dict(
        model="small",
        messages=[{"role": "user", "content": "What time is it?"}],
        functions=[GET_TIME],
        function_call={"name": "get_time"},
        max_tokens=60,
        temperature=0,
    )
    if stream:
        chunks = [
            chunk.choices[0] for chunk in client.chat.completions.create(**asked, stream=True)
        ]
        calls = [chunk.delta.function_call for chunk in chunks if chunk.delta.function_call]
        name = "".join(call.name or "" for call in calls)
        arguments = "".join(call.arguments or "" for call in calls)
        reason = chunks[-1].finish_reason
    else:
        [choice] = client.chat.completions.create(**asked).choices
        name = choice.message.function_call.name
        arguments, reason = choice.message.function_call.arguments, choice.finish_reason
        assert choice.message.tool_calls is None
    assert name == "get_time" and json.loads(arguments) == {} and reason == "function_call"


def test_unknown_fields_are_told_and_logged_once(caplog):
    body = ChatRequest.model_validate(
        {"messages": USER, "a,b\r\n": 1, "\ud800": 2, "": 3, "stream_options": {"pace": 1}}
    )
    named = {"name": "a", "schema": {"properties": {"strictt": {}}}, "strictt": True}
    format_ = {"type": "json_schema", "json_schema": named}
    misspelt = ChatRequest.model_validate({"messages": USER, "response_format": format_})
    assert ignored_header(misspelt) == {HEADER: "response_format.json_schema.strictt"}
    assert ignored_header(body) == {HEADER: 'a%2Cb%0D%0A, %3F, "", stream_options.pace'}
    caplog.set_level(logging.WARNING)
    unknown = UnknownFields(is_strict=False)
    for _ in range(3):
        unknown.check(body)
    assert len(caplog.records) == 4 and "stream_options.pace" in caplog.text
    with pytest.raises(InvalidParams, match="unknown field a,b"):
        UnknownFields(is_strict=True).check(body)


def test_strict_fields(server, monkeypatch):
    monkeypatch.setattr(server.app.state.backend, "_unknown_fields", UnknownFields(True))
    schema = {"name": "a", "schema": {}, "strictt": True}
    misspelt = {"response_format": {"type": "json_schema", "json_schema": schema}}
    for given, status in ({"store": True}, 200), (misspelt, 400), ({"no_such_field": 1}, 400):
        answer = httpx.post(
            f"{server.url}{CHAT}",
            json=LEAST[CHAT] | given,
            headers={"Authorization": f"Bearer {KEY}"},
        )
        assert answer.status_code == status
    assert answer.json()["error"]["param"] == "no_such_field"


def test_the_end_tokens_score_is_told_apart_from_the_text(http):
    """Clients join the tokens of a piece, and take that for its text."""
    asked = {"guided_regex": "It is (Anna|Bob)\\.", "logprobs": True, "temperature": 0}
    body = LEAST[CHAT] | asked | {"max_tokens": 20, "stream": True}
    lines = http.post(CHAT, json=body).text.split("\n\n")[:-2]
    choices = [json.loads(line.removeprefix("data: "))["choices"][0] for line in lines]
    told = [one for one in choices if one["logprobs"]]
    spelled = ["".join(one["token"] for one in choice["logprobs"]["content"]) for choice in told]
    *pieces, end = [choice["delta"].get("content") for choice in told]
    assert pieces == spelled[:-1] and end is None
