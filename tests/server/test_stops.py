"""Stop strings and stop tokens beside tools and guides, as clients ask for them."""

from __future__ import annotations

import json

import pytest

from specguide.config import EngineConfig
from specguide.engine import AsyncEngine, Engine
from specguide.guided.reading.spelled import shown_bytes, special_bytes
from specguide.params import SamplingParams
from specguide.server.apis import chat
from specguide.server.bodies.requests import ChatRequest
from specguide.server.config import ServerConfig
from specguide.server.running.parsed_sample import ParsedSample, output_form
from specguide.server.running.stop_tail import StopTail
from specguide.server.tasks.backend import Backend
from specguide.server.tasks.events import Reasoned, Text

USER = [{"role": "user", "content": "My name is Anna and I am 31 years old."}]
CHAT = "/v1/chat/completions"
TOOL = {"name": "get_time", "parameters": {"type": "object", "additionalProperties": False}}
LETTERS = {"regex": "[a-z]{2,40}( [a-z]{2,40}){0,9}"}


@pytest.fixture(scope="module")
def engine() -> AsyncEngine:
    """One that never runs."""
    return AsyncEngine(Engine(EngineConfig(max_batch_size=2)))


def said(http, **fields):
    body = {"messages": USER, "temperature": 0, "max_tokens": 40} | fields
    answer = http.post(CHAT, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]


def chunks(http, **fields):
    body = {"messages": USER, "temperature": 0, "max_tokens": 40, "stream": True} | fields
    lines = http.post(CHAT, json=body).text.split("\n\n")[:-2]
    return [json.loads(line.removeprefix("data: "))["choices"][0] for line in lines]


def streamed(http, **fields):
    choices = chunks(http, **fields)
    text = "".join(choice["delta"].get("content") or "" for choice in choices)
    return text, choices[-1]["finish_reason"]


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("logprobs", [False, True])
def test_beside_tools_text_ends_at_the_stop(http, include, logprobs):
    free = dict(tools=[{"type": "function", "function": TOOL}], bad_words=["<tool_call>"])
    whole = said(http, **free)["message"]["content"]
    stop = whole[5:8]
    asked = free | {"stop": stop, "logprobs": logprobs, "include_stop_str_in_output": include}
    choice = said(http, **asked)
    expected = whole[: whole.index(stop) + (len(stop) if include else 0)]
    assert choice["message"]["content"] == expected and choice["finish_reason"] == "stop"
    assert streamed(http, **asked) == (expected, "stop")


@pytest.mark.parametrize("include", [False, True])
def test_beside_tools_text_ends_at_the_first_stop_of_a_token(http, include):
    [ids] = [http.post("/tokenize", json={"prompt": "parameters"}).json()["tokens"][-1:]]
    asked = dict(logit_bias={str(ids[0]): 100}, stop=["a"], include_stop_str_in_output=include)
    free = said(http, **asked)["message"]["content"]
    assert free == ("pa" if include else "p")
    asked["tools"] = [{"type": "function", "function": TOOL}]
    asked["bad_words"] = ["<tool_call>"]
    assert said(http, **asked)["message"]["content"] == free
    assert streamed(http, **asked) == (free, "stop")


def test_beside_a_schema_the_answer_stays_whole(http):
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "p", "schema": schema}}
    choice = said(http, response_format=form, stop=["\n", "}", "name", "3"])
    assert json.loads(choice["message"]["content"]) == {"name": "Anna", "age": 31}
    assert choice["finish_reason"] == "stop"


def test_beside_a_regex_it_ends_where_that_may_end(http):
    whole = said(http, **LETTERS)["message"]["content"]
    first, *_ = whole.split(" ")
    choice = said(http, **LETTERS, stop=[whole[0], " "])
    assert choice["message"]["content"] == first and choice["finish_reason"] == "stop"
    assert streamed(http, **LETTERS, stop=" ") == (first, "stop")


def test_stop_tokens(http, server):
    whole = said(http, **LETTERS)["message"]["content"]
    spelled = server.engine.tokenizer.vocabulary(server.engine.vocab_size).token_bytes
    body = {"prompt": whole[:9], "add_special_tokens": False}
    ids = http.post("/tokenize", json=body).json()["tokens"]
    choice = said(http, **LETTERS, stop_token_ids=ids)
    text = choice["message"]["content"]
    assert choice["finish_reason"] == "stop" and whole.startswith(text) and len(text) < len(whole)
    assert any(text.encode().endswith(spelled[token]) for token in ids)


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("logprobs", [False, True])
def test_free_text_ends_before_a_stop_token(http, include, logprobs):
    whole = said(http, logprobs=True)
    tokens = [one["token"] for one in whole["logprobs"]["content"]]
    body = {"prompt": tokens[3], "add_special_tokens": False}
    stop_token_ids = http.post("/tokenize", json=body).json()["tokens"][-1:]
    expected = "".join(tokens[: tokens.index(tokens[3]) + include])
    asked = dict(
        stop_token_ids=stop_token_ids, logprobs=logprobs, include_stop_str_in_output=include
    )
    choice = said(http, **asked)
    assert (choice["message"]["content"], choice["finish_reason"]) == (expected, "stop")
    assert streamed(http, **asked) == (expected, "stop")
    pieces = [one["delta"].get("content") for one in chunks(http, **asked) if one["logprobs"]]
    assert bool(pieces and pieces[-1]) == (include and logprobs)


def test_a_call_is_not_cut(http):
    """The grammar may not end in the arguments of a call."""
    asked = dict(tools=[{"type": "function", "function": TOOL}], tool_choice="required")
    choice = said(http, **asked, stop=["{", "}", "get_time", "arguments"])
    [call] = choice["message"]["tool_calls"]
    assert json.loads(call["function"]["arguments"]) == {}
    assert choice["finish_reason"] == "tool_calls"


TOOL_MARK = 6  # the id of <|tool|>
MARKS = {"logit_bias": {str(TOOL_MARK): 100}, "skip_special_tokens": False, "max_tokens": 3}
GRAMMAR = {"guided_grammar": 'start: "a" <|tool|>* "b"*', "logit_bias": {str(TOOL_MARK): 50}}
ENDS = {"logit_bias": {"2": 100}}


@pytest.mark.parametrize("more", [{}, {"logprobs": 1}, {"logprobs": 1, "stop": "zz"}], ids=str)
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "<|tool|>" * 3),
        ({"skip_special_tokens": True}, ""),
        ({"stop": "l|><"}, "<|too"),
        ({"stop": "l|><", "include_stop_str_in_output": True}, "<|tool|><"),
        (ENDS, ""),
        (ENDS | {"include_stop_str_in_output": True}, "<|end|>"),
        (ENDS | {"ignore_eos": True}, "<|end|>" * 3),
        (GRAMMAR | {"stop": ["<|tool|>", "b"]}, "a"),
        (GRAMMAR | {"stop": ["ool|>", "b"]}, "a<|tool|>"),
        (GRAMMAR | {"stop": ["ool|>", "b"], "include_stop_str_in_output": True}, "a<|tool|>"),
    ],
    ids=str,
)
def test_special_tokens_are_part_of_the_text_where_that_is_asked_for(http, fields, expected, more):
    asked = {"prompt": "One", "temperature": 0} | MARKS | more | fields
    [choice] = http.post("/v1/completions", json=asked).json()["choices"]
    assert choice["text"] == expected
    lines = http.post("/v1/completions", json=asked | {"stream": True}).text.split("\n\n")[:-2]
    told = [json.loads(line.removeprefix("data: "))["choices"][0] for line in lines]
    assert "".join(one["text"] for one in told) == expected


def test_their_names_move_the_offsets_of_scored_tokens(http):
    asked = {"prompt": "One", "temperature": 0, "logprobs": 1} | MARKS
    [choice] = http.post("/v1/completions", json=asked).json()["choices"]
    assert choice["logprobs"]["text_offset"] == [0, 8, 16]


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("stop", ["l|><", "|>", "<|tool|>b", "a<", "ab", "zz"])
def test_beside_marks_they_are_cut_where_the_engine_cuts(stop, include, size):
    """Tokens are given in stretches of a size; the slow twin cuts the whole text."""
    names, spelled = {6: b"<|tool|>"}, [b"a", special_bytes(6), special_bytes(6), b"b", b"a"]
    texts = [names.get(6, b"") if one.startswith(b"\xff") else one for one in spelled]
    params = SamplingParams(
        stop=[stop], include_stop_str_in_output=include, skip_special_tokens=False
    )
    tail, whole = StopTail(params, names), b"".join(texts).decode()
    ends = [n for n in range(1, 6) if stop in b"".join(texts[:n]).decode()]
    num_tokens = min(ends, default=5)
    end = whole.index(stop) + len(stop) * include if ends else len(whole)
    told = b""
    for at in range(0, num_tokens, size):
        is_last = bool(ends) and at + size >= num_tokens
        told += tail.feed(*spelled[at : min(at + size, num_tokens)], is_last=is_last)
    told += tail.finish(stop if ends else None, end)
    assert shown_bytes(told, names).decode() == whole[:end]


@pytest.mark.parametrize("reasons", [False, True])
def test_beside_reasoning_they_are_shown(engine, reasons):
    """Marks are not shown; the names of the other special tokens are."""
    backend = Backend(engine, ServerConfig("small", reasoning_format="qwen3"))
    body = ChatRequest(messages=USER, skip_special_tokens=False, reasoning_effort="high")
    task = chat.parse(backend, body)
    text = "<think>\na<|tool|></think>\n\n" if reasons else ""
    ids = [*backend.tokenizer.encode(text, False), *(TOOL_MARK, 2, TOOL_MARK)]
    parsed = ParsedSample(backend, task, output_form(backend, task))
    said = parsed.add(ids) + parsed.finish(None, 0)
    texts = [
        "".join(one.text for one in said if isinstance(one, kind)) for kind in (Reasoned, Text)
    ]
    assert texts == ["a<|tool|>" if reasons else "", "<|tool|><|end|><|tool|>"]


@pytest.mark.parametrize("include", [False, True])
def test_what_may_be_a_stop_is_held_back(include):
    params = SamplingParams(stop=["END", "DONE"], include_stop_str_in_output=include)
    tail = StopTail(params)
    assert [tail.feed(piece) for piece in (b"a E", b"N", b"x D", b"OEN")] == [
        b"a ",
        b"",
        b"ENx ",
        b"DO",
    ]
    assert tail.feed(b"D.", is_last=True) == b""
    assert tail.finish("END") == (b"END" if include else b"")
    assert tail.feed(b"DON") == b"" and tail.finish(None) == b"DON"
    assert tail.feed(b"END") == b"" and tail.feed(b"!") == b"END!"  # the grammar went on


@pytest.mark.parametrize("include", [False, True])
def test_of_stops_in_the_last_token_the_engine_says_which_it_was(include):
    params = SamplingParams(stop=["}"], include_stop_str_in_output=include)
    for num_bytes, expected in ((4 + include, b"a}b"), (5 + include, b"a}b}"), (0, b"a}b")):
        tail = StopTail(params)
        assert tail.feed(b"{") == b"{"
        assert tail.feed(b"a}", b"b}}", is_last=True) == b""
        assert tail.finish("}", num_bytes) == expected + b"}" * include


@pytest.mark.parametrize("url", [CHAT, "/v1/completions"])
def test_what_ended_a_choice_is_told_as_vllm_tells_it(http, url):
    """By `stop_reason`: a stop string, a token of `stop_token_ids`, or null."""
    prompt = {"messages": USER} if url == CHAT else {"prompt": USER[0]["content"]}
    body = {**prompt, "temperature": 0, "max_tokens": 12, "ignore_eos": True}

    def ends(**asked):
        whole = http.post(url, json=body | asked).json()["choices"][0]
        lines = http.post(url, json=body | asked | {"stream": True}).text.split("\n\n")[:-2]
        last = json.loads(lines[-1].removeprefix("data: "))["choices"][0]
        why = whole["finish_reason"], whole["stop_reason"]
        assert (last["finish_reason"], last["stop_reason"]) == why
        return whole, why

    whole, why = ends()
    assert why == ("length", None)
    text = whole["message"]["content"] if url == CHAT else whole["text"]
    assert ends(stop=text[3:5])[1] == ("stop", text[3:5])
    assert ends(stop_token_ids=[100], allowed_token_ids=[100])[1] == ("stop", 100)
