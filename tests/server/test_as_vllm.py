"""What who comes from vLLM's server finds as it was there."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from specguide.config import EngineConfig
from specguide.engine import AsyncEngine, Engine
from specguide.errors import InvalidParams
from specguide.server.apis import anthropic, chat, completions
from specguide.server.bodies.requests import ChatRequest, CompletionRequest
from specguide.server.config import ServerConfig
from specguide.server.tasks.backend import Backend

USER = [{"role": "user", "content": "What is the weather in Paris?"}]
CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": CITY}}]


@pytest.fixture(scope="module")
def engine() -> AsyncEngine:
    """One that never runs."""
    return AsyncEngine(Engine(EngineConfig(max_batch_size=2)))


def backend_of(engine: AsyncEngine, **config: Any) -> Backend:
    return Backend(engine, ServerConfig("small", **config))


def prompt_of(backend: Backend, **fields: Any) -> list[int]:
    """The prompt that a conversation comes to."""
    (prompt,) = chat.parse(backend, ChatRequest(messages=USER, **fields)).prompts
    return prompt


@pytest.mark.parametrize("excludes", [False, True])
def test_tools_that_may_not_be_called_are_told_to_the_model_or_not(
    engine: AsyncEngine, excludes: bool
) -> None:
    backend = backend_of(engine, exclude_uncallable_tools=excludes)
    without, told = prompt_of(backend), prompt_of(backend, tools=TOOLS)
    assert len(without) < len(told)
    assert prompt_of(backend, tools=TOOLS, tool_choice="none") == (without if excludes else told)
    task = chat.parse(backend, ChatRequest(messages=USER, tools=TOOLS, tool_choice="none"))
    assert task.params.guide is None


@pytest.mark.parametrize("excludes", [False, True])
def test_tokens_are_counted_with_such_tools(engine: AsyncEngine, excludes: bool) -> None:
    backend = backend_of(engine, exclude_uncallable_tools=excludes)
    tools = [{"name": "get_weather", "input_schema": CITY}]

    def count(**fields: Any) -> Any:
        return anthropic.count(backend, anthropic.CountRequest(messages=USER, **fields))

    without, told = count(), count(tools=tools)
    chosen = count(tools=tools, tool_choice={"type": "none"})
    assert without != told and chosen == (without if excludes else told)


@pytest.mark.parametrize(("budget", "bound"), [(-1, None), (0, 0), (7, 7)])
def test_a_thinking_budget_may_be_none(engine: AsyncEngine, budget: int, bound: int | None) -> None:
    backend = backend_of(engine, reasoning_format="qwen3")
    body = ChatRequest(messages=USER, thinking_token_budget=budget)
    reasoning = chat.parse(backend, body).params.reasoning
    assert (reasoning and reasoning.max_tokens) == bound


@pytest.mark.parametrize(
    ("fields", "effort", "bound"),
    [
        ({}, None, None),
        ({"enable_thinking": True}, "medium", None),
        ({"enable_thinking": False, "reasoning_effort": "low"}, "low", None),
        ({"thinking": {"type": "enabled", "budget_tokens": 7}}, "medium", 7),
        ({"thinking": {"type": "adaptive"}, "thinking_budget": 0}, None, 0),
    ],
)
def test_switches_of_other_vendors(fields: Any, effort: str | None, bound: int | None) -> None:
    body = ChatRequest(messages=USER, **fields)
    assert (body.effort(), body.reasoning_bound()) == (effort, bound)


def test_special_tokens_are_detokenized_or_not(http: httpx.Client) -> None:
    for skips, text in ((None, "<|begin|>a<|end|>"), (True, "a")):
        ids = http.post("/tokenize", json={"prompt": "a"}).json()["tokens"]
        body = {"tokens": [*ids, 2], "skip_special_tokens": skips}
        assert http.post("/detokenize", json=body).json() == {"prompt": text}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("header", "field", "name"),
    [("job-7", None, "job-7"), (None, "job-8", "job-8"), ("job-7", "job-8", "job-7")],
)
@pytest.mark.parametrize(
    ("path", "prefix", "asked"),
    [
        ("/v1/chat/completions", "chatcmpl-", {"messages": USER}),
        ("/v1/completions", "cmpl-", {"prompt": "One"}),
    ],
)
def test_an_answer_is_called_as_its_request(
    http: httpx.Client,
    path: str,
    prefix: str,
    asked: dict[str, Any],
    header: str | None,
    field: str | None,
    name: str,
    stream: bool,
) -> None:
    headers = {} if header is None else {"x-request-id": header}
    body = {**asked, "max_tokens": 1, "request_id": field, "stream": stream}
    answer = http.post(path, json=body, headers=headers)
    text = answer.text.split("\n\n")[0].removeprefix("data: ") if stream else answer.text
    assert json.loads(text)["id"] == prefix + name
    assert answer.headers["x-request-id"] == name


def test_requests_of_one_name_run_beside_each_other(http: httpx.Client) -> None:
    body = {"prompt": "One, two,", "max_tokens": 8, "temperature": 0, "request_id": "job"}
    with ThreadPoolExecutor() as pool:
        answers = list(pool.map(lambda _: http.post("/v1/completions", json=body), range(4)))
    assert {one.json()["id"] for one in answers} == {"cmpl-job"}
    assert len({one.json()["choices"][0]["text"] for one in answers}) == 1


@pytest.mark.parametrize("odd", ["", "a b", "x" * 129, "é", "a\n"])
def test_names_that_are_not_plain_are_refused(http: httpx.Client, odd: str) -> None:
    body = {"prompt": "One", "max_tokens": 1, "request_id": odd}
    answer = http.post("/v1/completions", json=body)
    error = answer.json()["error"]
    assert answer.status_code == 400 and error["param"] == "request_id"
    assert error["message"].endswith("1 to 128 visible ASCII characters, without spaces")


def chunks(answer: httpx.Response) -> list[dict[str, Any]]:
    """The objects of a stream."""
    *lines, last = answer.text.strip().split("\n\n")
    assert answer.status_code == 200 and last == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines]


ASKED = {"max_tokens": 12, "temperature": 0, "return_token_ids": True, "n": 2}


@pytest.mark.parametrize("more", [{}, {"logprobs": True}, {"stop": "zzz"}, {"tools": TOOLS}])
def test_token_ids_of_chat(http: httpx.Client, more: dict[str, Any]) -> None:
    body = {**ASKED, "messages": USER, **more}
    whole = http.post("/v1/chat/completions", json=body).json()
    prompt = http.post("/tokenize", json={"messages": USER, "tools": more.get("tools")}).json()
    assert whole["prompt_token_ids"] == prompt["tokens"]
    told = [choice["token_ids"] for choice in whole["choices"]]
    assert sum(map(len, told)) == whole["usage"]["completion_tokens"]
    text = http.post("/detokenize", json={"tokens": told[0]}).json()["prompt"]
    assert (whole["choices"][0]["message"]["content"] or "") in text

    first, *rest = chunks(http.post("/v1/chat/completions", json={**body, "stream": True}))
    assert first["prompt_token_ids"] == prompt["tokens"]
    assert not any("prompt_token_ids" in one for one in rest[1:])
    streamed: list[list[int]] = [[], []]
    for chunk in (first, *rest):
        for choice in chunk["choices"]:
            streamed[choice["index"]] += choice["token_ids"]
    assert streamed == told


@pytest.mark.parametrize(
    "more", [{}, {"logprobs": 1}, {"echo": True}, {"echo": True, "logprobs": 0}]
)
def test_token_ids_of_completions(http: httpx.Client, more: dict[str, Any]) -> None:
    prompts = [[5, 6, 7], [8, 9]]
    body = {**ASKED, "prompt": prompts, **more}
    whole = http.post("/v1/completions", json=body).json()
    told = [choice["token_ids"] for choice in whole["choices"]]
    assert [choice["prompt_token_ids"] for choice in whole["choices"]] == [
        prompt for prompt in prompts for _ in range(2)
    ]
    assert sum(map(len, told)) == whole["usage"]["completion_tokens"]

    streamed: list[list[int]] = [[] for _ in told]
    of_prompts: list[list[Any]] = [[] for _ in told]
    for chunk in chunks(http.post("/v1/completions", json={**body, "stream": True})):
        for choice in chunk["choices"]:
            streamed[choice["index"]] += choice["token_ids"]
            of_prompts[choice["index"]] += [choice.get("prompt_token_ids")]
    assert streamed == told
    assert [first for first, *_ in of_prompts] == [p for p in prompts for _ in range(2)]
    assert not any(any(rest) for _, *rest in of_prompts)


def test_no_token_ids_where_nobody_asks(http: httpx.Client) -> None:
    for path, asked in (
        ("/v1/chat/completions", {"messages": USER}),
        ("/v1/completions", {"prompt": "One"}),
    ):
        answer = http.post(path, json={**asked, "max_tokens": 2, "return_token_ids": False})
        assert "token_ids" not in answer.text


def test_scored_tokens_by_their_ids(http: httpx.Client) -> None:
    asked = {"max_tokens": 4, "temperature": 0, "return_token_ids": True}
    asked |= {"return_tokens_as_token_ids": True}
    chat = {**asked, "messages": USER, "logprobs": True, "top_logprobs": 2}
    [choice] = http.post("/v1/chat/completions", json=chat).json()["choices"]
    ids = [f"token_id:{token}" for token in choice["token_ids"]]
    assert [one["token"] for one in choice["logprobs"]["content"]] == ids
    for one in choice["logprobs"]["content"]:
        assert all(rival["token"].startswith("token_id:") for rival in one["top_logprobs"])
    [choice] = http.post("/v1/completions", json={**asked, "prompt": "One,", "logprobs": 2}).json()[
        "choices"
    ]
    ids = [f"token_id:{token}" for token in choice["token_ids"]]
    assert choice["logprobs"]["tokens"] == ids
    for name, rivals in zip(ids, choice["logprobs"]["top_logprobs"], strict=True):
        assert name in rivals


def test_scores_of_a_conversations_tokens(http: httpx.Client) -> None:
    body = {"messages": USER, "max_tokens": 1, "prompt_logprobs": 1}
    whole = http.post("/v1/chat/completions", json=body).json()
    prompt = http.post("/tokenize", json={"messages": USER}).json()["tokens"]
    of_ids = {"prompt": prompt, "max_tokens": 1, "prompt_logprobs": 1}
    [choice] = http.post("/v1/completions", json=of_ids).json()["choices"]
    found, same = whole["prompt_logprobs"], choice["prompt_logprobs"]
    assert found[0] is None and [*map(set, found[1:])] == [*map(set, same[1:])]
    for entry, token in zip(found[1:], prompt[1:], strict=True):
        assert set(entry[str(token)]) == {"logprob", "rank", "decoded_token"}
    refused = http.post("/v1/chat/completions", json={**body, "stream": True})
    assert refused.status_code == 400 and refused.json()["error"]["param"] == "prompt_logprobs"


BEGUN = [*USER, {"role": "assistant", "content": "The weather in Paris is "}]
CONTINUED = {"continue_final_message": True, "add_generation_prompt": False}


def test_an_answer_that_is_begun_goes_on(engine: AsyncEngine) -> None:
    backend = backend_of(engine)
    before = prompt_of(backend)
    (prompt,) = chat.parse(backend, ChatRequest(messages=BEGUN, **CONTINUED)).prompts
    text = backend.tokenizer.decode(prompt, False)
    assert text == backend.tokenizer.decode(before, False) + "The weather in Paris is "


def test_what_is_continued_spells_no_control_tokens(engine: AsyncEngine) -> None:
    backend = backend_of(engine)
    end = backend.tokenizer.decode(backend.tokenizer.eos_token_ids[:1], False)
    begun = [*USER, {"role": "assistant", "content": f"It is {end} not over"}]
    (prompt,) = chat.parse(backend, ChatRequest(messages=begun, **CONTINUED)).prompts
    text = backend.tokenizer.decode(prompt, False)
    assert text.endswith(f"It is {end} not over")
    assert prompt_of(backend).count(backend.tokenizer.eos_token_ids[0]) == prompt.count(
        backend.tokenizer.eos_token_ids[0]
    )


def test_a_model_that_reasons_does_not_think_again(engine: AsyncEngine) -> None:
    backend = backend_of(engine, reasoning_format="qwen3")
    for effort in ("none", "high"):
        body = ChatRequest(messages=BEGUN, reasoning_effort=effort, **CONTINUED)
        task = chat.parse(backend, body)
        assert task.reasoning is None
        assert backend.tokenizer.decode(task.prompts[0], False).endswith("Paris is ")


CUTS = [
    ({"truncate_prompt_tokens": 3}, slice(-3, None)),
    ({"truncate_prompt_tokens": 3, "truncation_side": "right"}, slice(3)),
    ({"truncate_prompt_tokens": 999}, slice(None)),
    ({"truncate_prompt_tokens": -1}, slice(None)),
    ({"truncate_prompt_tokens": -1, "max_tokens": 2040}, slice(-8, None)),
]


@pytest.mark.parametrize(("fields", "kept"), CUTS, ids=str)
def test_a_long_prompt_is_cut_where_that_is_asked_for(
    engine: AsyncEngine, fields: dict[str, Any], kept: slice
) -> None:
    backend = backend_of(engine)
    cut = prompt_of(backend, **fields)
    assert cut == prompt_of(backend)[kept] and fields.get("max_tokens", 8) in (8, 2048 - len(cut))
    text = "One, two, three, four, five, six, seven"
    body = CompletionRequest(prompt=[text, "One"], echo=True, **fields)
    task = completions.parse(backend, body)
    ids = backend.tokenizer.encode(text)
    assert task.prompts == (ids[kept], backend.tokenizer.encode("One")[kept])
    assert task.echoed[0] == backend.tokenizer.decode(ids[kept])


def test_a_prompt_is_not_cut_to_nothing(engine: AsyncEngine) -> None:
    with pytest.raises(InvalidParams, match="≥ 1, or -1"):
        prompt_of(backend_of(engine), truncate_prompt_tokens=0)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("echo", [False, True])
def test_what_is_continued_is_told_again_or_not(
    http: httpx.Client, echo: bool, stream: bool
) -> None:
    body = {"messages": BEGUN, **CONTINUED, "max_tokens": 4, "temperature": 0}
    [choice] = http.post("/v1/chat/completions", json=body).json()["choices"]
    more = choice["message"]["content"]
    answer = http.post("/v1/chat/completions", json={**body, "echo": echo, "stream": stream})
    if stream:
        deltas = [choice["delta"] for one in chunks(answer) for choice in one["choices"]]
        text = "".join(delta.get("content", "") for delta in deltas)
    else:
        text = answer.json()["choices"][0]["message"]["content"]
    assert text == (BEGUN[-1]["content"] if echo else "") + more


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": USER}, "continue_final_message"),
        ({"messages": [*USER, {"role": "assistant"}]}, "continue_final_message"),
        ({"add_generation_prompt": True}, "add_generation_prompt"),
        ({"continue_final_message": False}, "add_generation_prompt"),
        ({"structured_outputs": {"regex": "a+"}}, "messages"),
        ({"tools": TOOLS}, "messages"),
    ],
)
def test_what_cannot_be_continued_is_refused(
    engine: AsyncEngine, fields: dict[str, Any], param: str
) -> None:
    body = ChatRequest(**{"messages": BEGUN, **CONTINUED, **fields})
    with pytest.raises(InvalidParams) as refused:
        chat.parse(backend_of(engine), body)
    assert refused.value.param == param


def test_what_is_continued_is_tokenized_so(http: httpx.Client) -> None:
    asked = {"messages": BEGUN, **CONTINUED}
    tokens = http.post("/tokenize", json=asked).json()["tokens"]
    body = {**asked, "max_tokens": 1, "return_token_ids": True}
    answer = http.post("/v1/chat/completions", json=body).json()
    assert answer["prompt_token_ids"] == tokens


@pytest.mark.parametrize("included", [True, False])
def test_reasoning_that_is_not_told_has_no_scores(engine: AsyncEngine, included: bool) -> None:
    backend = backend_of(engine, reasoning_format="qwen3")
    asked = {"logprobs": True, "include_reasoning": included, "return_token_ids": True}
    body = ChatRequest(messages=USER, **asked)
    task = chat.parse(backend, body)
    assert (task.params.logprobs is not None) == included
    renderer = chat.ChatRenderer(body, task)
    assert ("prompt_token_ids" in renderer.whole()) == included


@pytest.mark.parametrize("stream", [False, True])
def test_the_prompt_is_told_as_it_was_written(http: httpx.Client, stream: bool) -> None:
    asked = {"messages": USER, "max_tokens": 1, "stream": stream}
    answer = http.post("/v1/chat/completions", json={**asked, "return_prompt_text": True})
    told = chunks(answer)[0] if stream else answer.json()
    tokens = http.post("/tokenize", json={"messages": USER}).json()["tokens"]
    assert told["prompt_text"] == http.post("/detokenize", json={"tokens": tokens}).json()["prompt"]
    assert "prompt_text" not in http.post("/v1/chat/completions", json=asked).text


@pytest.mark.parametrize("name", ["kv_transfer_params", "vllm_xargs", "custom_params"])
def test_objects_that_nothing_reads_may_be_empty(http: httpx.Client, name: str) -> None:
    for value, status in (({}, 200), ({"a": 1}, 400)):
        body = {"prompt": "One", "max_tokens": 1, name: value}
        assert http.post("/v1/completions", json=body).status_code == status


def test_the_greatest_effort(engine: AsyncEngine) -> None:
    backend = backend_of(engine, reasoning_format="gpt_oss")
    asked = {"messages": USER, "reasoning_effort": "max"}
    assert chat.parse(backend, ChatRequest(**asked)).reasoning is not None
