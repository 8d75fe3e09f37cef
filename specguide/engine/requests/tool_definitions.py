"""Owns tools as a caller in Python defines them, and the guide of a message that may call them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specguide.config import GuideConfig
from specguide.errors import InvalidParams
from specguide.guide import Guide
from specguide.guided.tools import Tool, choose_tool_format, tool_guide
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
        [_tool(tool, f"tools[{index}]") for index, tool in enumerate(tools)],
        lambda text: vocabulary.special_id(tokenizer.token_id(text)),
        limits,
        must_call=must_call,
        is_parallel=is_parallel,
        answer=answer,
    )


def _tool(definition: Mapping[str, Any], param: str) -> Tool:
    """A tool of the OpenAI API, with an inner "function" or without. Raises InvalidParams."""
    function = definition.get("function", definition)
    name = function.get("name") if isinstance(function, Mapping) else None
    if not isinstance(name, str) or not name:
        raise InvalidParams(
            f'{param} needs a name: {{"type": "function", "function": {{"name": …, "parameters": '
            f"…}}}}; found {definition!r}",
            param=param,
        )
    parameters = function.get("parameters")
    if parameters is None:
        parameters = {"type": "object", "properties": {}, "additionalProperties": False}
    if not isinstance(parameters, Mapping) or parameters.get("type", "object") != "object":
        raise InvalidParams(
            f"{param}: the parameters of {name!r} must be a JSON schema of type object, found "
            f"{parameters!r}",
            param=param,
        )
    return Tool(name, {"type": "object", **parameters}, f"{param}.parameters")
