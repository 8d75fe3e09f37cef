"""Owns what all APIs that answer a conversation have in common: from its messages and tools to a
task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specguide.guide import Guide
from specguide.server.backend import Backend
from specguide.server.guides import closed_guide, schema_rules
from specguide.server.prompt import prompt_ids
from specguide.server.reasoning import ReasoningPlan
from specguide.server.requests import TurnFields
from specguide.server.task import Task
from specguide.server.tool_choice import ToolChoice
from specguide.server.tools import function_of, tools_of


def conversation_task(
    backend: Backend,
    body: TurnFields,
    messages: tuple[str, Sequence[dict[str, Any]]],
    answer: Guide | None,
    **sampling: Any,
) -> Task:
    """Raises ApiError, InvalidParams and InvalidGuide, which name the field.

    messages: the field that has them, and what chat templates read of them
    answer:   what the turn's text must match
    sampling: further values of SamplingParams; max_tokens None: all that the model has room for
    """
    model = backend.check_model(body.model)
    backend.check_samples(1, sampling.get("n") or 1)
    rules = schema_rules(backend.config, body)
    answer = closed_guide(answer, rules)
    choice = ToolChoice.of(body.tool_choice, tools_of(body.tools or (), rules))
    tool_format, guide, tools = None, answer, None
    schema_params: tuple[str | None, ...] = ()
    if choice is not None:
        tool_format = backend.tool_format
        guide = choice.guide(
            tool_format,
            backend.special_token,
            backend.limits,
            answer=answer,
            is_parallel=body.parallel_tool_calls is not False,
        )
        schema_params = choice.schema_params(answer)
        tools = [{"type": "function", "function": function_of(tool)} for tool in body.tools or ()]
    plan = ReasoningPlan.of(body, backend.reasoning_format)
    field, conversation = messages
    backend.check_prompt(sum(len(message["content"] or "") for message in conversation), field)
    token_ids = prompt_ids(
        backend,
        body,
        messages,
        tools=tools,
        json_schema=answer.source() if answer and answer.kind == "json_schema" else None,
        variables=plan.variables(),
    )
    token_ids = plan.finished(token_ids, backend.tokenizer)
    backend.check_prompt_ids(token_ids, field)
    if sampling.get("max_tokens") is None:
        sampling["max_tokens"] = max(1, backend.engine.max_model_len - len(token_ids))
    expected = plan.expected(token_ids, backend.tokenizer)
    params = body.sampling(**sampling, **plan.guided(guide, expected))
    return Task(
        model,
        (token_ids,),
        params,
        tool_format,
        must_call=choice is not None and choice.must_call,
        reasoning=expected,
        schema_params=schema_params,
        priority=body.priority,
    )
