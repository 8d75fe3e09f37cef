"""What who comes from vLLM's server finds as it was there."""

from __future__ import annotations

from typing import Any

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
