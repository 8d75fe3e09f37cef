"""Owns the way from a conversation's messages and tools to a task, the same for all APIs that
answer conversations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pydantic_core import to_json

from specguide.errors import InvalidParams
from specguide.guide import Guide
from specguide.images import PromptIds
from specguide.server.bodies.shared_fields import TurnFields
from specguide.server.tasks.backend import Backend
from specguide.server.tasks.custom_tools import custom_names
from specguide.server.tasks.guides import closed_guide, schema_rules
from specguide.server.tasks.prompt import Conversation, prompt_ids
from specguide.server.tasks.reasoning import ReasoningPlan
from specguide.server.tasks.schemas import SchemaRules
from specguide.server.tasks.task import Task
from specguide.server.tasks.tool_choice import ToolChoice
from specguide.server.tasks.tools import OF_OPENAI, ToolFields, function_of, tools_of

_TAIL = 8
"""Tokens at a prompt's end in which the beginning of an answer is looked for."""


def conversation_task(
    backend: Backend,
    body: TurnFields,
    conversation: Conversation,
    answer: Guide | None,
    named: ToolFields = OF_OPENAI,
    **sampling: Any,
) -> Task:
    """The task of a conversation. Raises ApiError, InvalidParams and InvalidGuide, which name the
    field.

    answer:   the guide of the turn's text
    named:    the fields of the request's tools
    sampling: further values of SamplingParams; max_tokens None: as many as the model has room for
    """
    model = backend.check_model(body.model)
    backend.check_samples(1, sampling.get("n") or 1)
    rules = schema_rules(backend.config, body)
    answer = closed_guide(answer, rules)
    calls = _calls(backend, body, answer, rules, named)
    if conversation.is_continued and calls.guide is not None:
        raise InvalidParams(
            "a guide constrains a whole answer, and this one continues the last message: let the "
            "last message be the user's, or leave the guide out (with tools: tool_choice none)",
            param=conversation.field,
        )
    plan = _plan(backend, body, conversation, may_call=calls.may_call)
    room = backend.engine.max_model_len - (sampling.get("max_tokens") or 1)
    token_ids = _prompt(backend, body, conversation, plan, calls.tools, answer, room)
    if sampling.get("max_tokens") is None:
        sampling["max_tokens"] = max(1, backend.engine.max_model_len - len(token_ids))
    expected = plan.expected(token_ids, backend.tokenizer)
    if expected is not None and not expected.is_shown:
        sampling["logprobs"] = None  # they would reveal it
    sampling |= plan.guided(calls.guide, expected)
    return Task(
        model,
        (token_ids,),
        body.sampling(backend.sampling_defaults, lora=backend.adapter(body.model), **sampling),
        reasoning=expected,
        schema_params=calls.schema_params,
        priority=body.priority,
        prompt_param=conversation.field,
        after_answer=plan.after_answer,
        custom_tools=custom_names(body.tools or ()),
    )


def num_prompt_tokens(
    backend: Backend,
    body: TurnFields,
    conversation: Conversation,
    answer: Guide | None,
    named: ToolFields = OF_OPENAI,
) -> int:
    """The number of tokens of the prompt that `conversation_task` makes of the same arguments,
    which may be too long. Raises ApiError and InvalidParams, which name the field."""
    backend.check_model(body.model)
    rules = schema_rules(backend.config, body)
    choice = ToolChoice.of(body.tool_choice, tools_of(body.tools or (), rules, named))
    plan = _plan(backend, body, conversation, may_call=choice is not None)
    json_schema = _prompt_schema(closed_guide(answer, rules))
    tools = prompt_tools(backend, body)
    return len(_untested_prompt(backend, body, conversation, plan, tools, json_schema))


def _plan(
    backend: Backend, body: TurnFields, conversation: Conversation, *, may_call: bool
) -> ReasoningPlan:
    begun = conversation.is_continued
    return ReasoningPlan.of(body, backend.reasoning_format, has_tools=may_call, is_begun=begun)


def _prompt_schema(answer: Guide | None) -> Any:
    """The answer's JSON Schema, for chat templates; None where there is none."""
    return answer.source() if answer and answer.kind == "json_schema" else None


def _untested_prompt(
    backend: Backend,
    body: TurnFields,
    conversation: Conversation,
    plan: ReasoningPlan,
    tools: Sequence[Mapping[str, Any]] | None,
    json_schema: Any,
) -> Sequence[int]:
    """Token ids of the conversation up to the answer, of any length, with those of images."""
    variables = plan.variables()
    token_ids = prompt_ids(
        backend, body, conversation, tools=tools, json_schema=json_schema, variables=variables
    )
    token_ids = plan.finished(token_ids, backend.tokenizer)
    is_open = not (conversation.is_continued or plan.has_tools)
    token_ids = _with_recipient(backend, token_ids) if is_open else token_ids
    return conversation.with_images(token_ids)


def _prompt(
    backend: Backend,
    body: TurnFields,
    conversation: Conversation,
    plan: ReasoningPlan,
    tools: Sequence[Mapping[str, Any]] | None,
    answer: Guide | None,
    room: int,
) -> Sequence[int]:
    """Token ids of the conversation up to the answer, see CutFields. Raises PromptTooLong."""
    json_schema = _prompt_schema(answer)
    num_chars = sum(len(message["content"] or "") for message in conversation.messages)
    backend.check_prompt(num_chars, conversation.field)
    made = partial(_untested_prompt, backend, body, conversation, plan)

    def shares() -> str:
        """How many of the tokens the chat template needs for tools and schema."""
        without: dict[str, tuple[Any, Any]] = {"tools": (None, json_schema)} if tools else {}
        if json_schema is not None:
            without["schema"] = (tools, None)
        try:
            num = {name: len(token_ids) - len(made(*rest)) for name, rest in without.items()}
        except InvalidParams:  # the template cannot render without them
            return ""
        return "".join(f", {num[name]} of them for the {name}" for name in num if num[name] > 0)

    token_ids = made(tools, json_schema)
    kept = conversation.cut.cut(list(token_ids), room)
    if len(kept) < len(token_ids):
        if isinstance(token_ids, PromptIds):
            raise InvalidParams(
                f"a prompt with images is not cut: it has {len(token_ids)} tokens, so leave "
                "truncate_prompt_tokens out, or send less",
                param="truncate_prompt_tokens",
            )
        token_ids = kept
    backend.check_prompt_ids(token_ids, conversation.field, shares)
    return token_ids


def _with_recipient(backend: Backend, token_ids: list[int]) -> list[int]:
    """The prompt of a turn without calls, with a mark at its end that the model would otherwise
    write before its answer, where a tool's name could come instead."""
    known, tokenizer = backend.known_tool_format, backend.tokenizer
    if known is None or not known.before_answer:
        return token_ids
    tail = tokenizer.decode(token_ids[-_TAIL:], skip_special_tokens=False)
    if not known.answers_behind(tail):
        return token_ids
    return token_ids + tokenizer.encode(known.before_answer, add_special_tokens=False)


def prompt_tools(backend: Backend, body: TurnFields) -> list[dict[str, Any]] | None:
    """The tools as chat templates read them; None where these get no tools. Raises InvalidParams
    for values that no template could write."""
    excludes = backend.config.exclude_uncallable_tools
    if not body.tools or (excludes and body.tool_choice == "none"):
        return None
    try:
        to_json(body.tools)
    except ValueError:
        raise InvalidParams(
            "tools have text that is not Unicode, or are nested too deeply", param="tools"
        ) from None
    return [{"type": "function", "function": function_of(tool)} for tool in body.tools]


@dataclass(frozen=True)
class _Calls:
    """The guide and the tools of a request.

    guide:    of the whole message, whether it has calls or not
    tools:    see `prompt_tools`
    may_call: the message may have calls

    schema_params: see Task.
    """

    guide: Guide | None
    tools: Sequence[Mapping[str, Any]] | None = None
    schema_params: tuple[str | None, ...] = ()
    may_call: bool = False


def _calls(
    backend: Backend,
    body: TurnFields,
    answer: Guide | None,
    rules: SchemaRules,
    named: ToolFields,
) -> _Calls:
    """The tools and the guide of a request. Raises InvalidParams and InvalidGuide, which name the
    field."""
    choice = ToolChoice.of(body.tool_choice, tools_of(body.tools or (), rules, named))
    tools = prompt_tools(backend, body)
    if choice is None:
        return _Calls(answer, tools)
    guide = choice.guide(
        backend.tool_format,
        backend.special_token,
        backend.limits,
        answer=answer,
        is_parallel=body.parallel_tool_calls is not False,
        key_order=body.key_order,
    )
    schema_params = choice.schema_params(answer, guide.layout)
    return _Calls(guide, tools, schema_params, may_call=True)
