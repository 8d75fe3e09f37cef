"""Owns tools as a caller in Python defines them, and the guide of a message that may call them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specguide.config import GuideConfig
from specguide.errors import InvalidParams
from specguide.guide import Guide
from specguide.guided.tools import (
    Tool,
    add_tool,
    arguments_schema,
    choose_tool_format,
    function_name,
    tool_guide,
)
from specguide.tokenizer import Tokenizer


def check_tools(tools: Any) -> None:
    """Raises InvalidParams unless `tools` is None or a list of tool definitions."""
    is_list = isinstance(tools, Sequence) and not isinstance(tools, (str, bytes))
    if tools is not None and not (is_list and all(isinstance(tool, Mapping) for tool in tools)):
        raise InvalidParams(
            'tools is a list of definitions, [{"type": "function", "function": {"name": …, '
            f'"parameters": …}}}}]; found {tools!r}',
            param="tools",
        )


def guide_of_tools(
    tools: Sequence[Mapping[str, Any]],
    tokenizer: Tokenizer,
    vocab_size: int,
    limits: GuideConfig | None,
    *,
    tool_format: str | None,
    must_call: bool,
    is_parallel: bool,
    answer: Any,
) -> Guide:
    """See LLM.tool_guide.

    vocab_size: width of the target's logits
    limits:     of the engine's grammars; None where it has none
    """
    check_tools(tools)
    if limits is None:
        raise InvalidParams(
            "this engine has no grammars: build it without guide=None", param="tools"
        )
    if not tools:
        raise InvalidParams("there is no tool to call: give one", param="tools")
    vocabulary = tokenizer.vocabulary(vocab_size)
    return tool_guide(
        choose_tool_format(tool_format, tokenizer.chat_template),
        _tools(tools),
        lambda text: vocabulary.special_id(tokenizer.token_id(text)),
        limits,
        must_call=must_call,
        is_parallel=is_parallel,
        answer=answer,
    )


def _tools(definitions: Sequence[Mapping[str, Any]]) -> list[Tool]:
    """Tools of the OpenAI API, each with an inner "function" or without. Raises InvalidParams."""
    tools: dict[str, Tool] = {}
    for index, definition in enumerate(definitions):
        function = definition.get("function", definition)
        if not isinstance(function, Mapping):
            function = {}
        name = function_name(function.get("name"), f"tools[{index}].name")
        param = f"tools[{index}].parameters"
        schema = arguments_schema(name, function.get("parameters"), param)
        add_tool(tools, Tool(name, schema, param), f"tools[{index}].name")
    return list(tools.values())
