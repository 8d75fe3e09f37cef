"""What who comes from vLLM's server finds as it was there."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from specguide.config import EngineConfig
from specguide.engine import AsyncEngine, Engine
from specguide.server import anthropic, chat
from specguide.server.backend import Backend
from specguide.server.config import ServerConfig
from specguide.server.requests import ChatRequest

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
    backend = backend_of(engine, exclude_tools_when_tool_choice_none=excludes)
    without, told = prompt_of(backend), prompt_of(backend, tools=TOOLS)
    assert len(without) < len(told)
    assert prompt_of(backend, tools=TOOLS, tool_choice="none") == (without if excludes else told)
    task = chat.parse(backend, ChatRequest(messages=USER, tools=TOOLS, tool_choice="none"))
    assert task.params.guide is None


@pytest.mark.parametrize("excludes", [False, True])
def test_tokens_are_counted_with_such_tools(engine: AsyncEngine, excludes: bool) -> None:
    backend = backend_of(engine, exclude_tools_when_tool_choice_none=excludes)
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
    assert answer.status_code == 400 and answer.json()["error"]["param"] == "request_id"
