"""Owns a request's choice of tools: which may be called, whether one must be, and the guide that
enforces it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from specguide.config import GuideConfig
from specguide.errors import InvalidParams
from specguide.guide import Guide
from specguide.guided.tools import (
    CallLayout,
    SpecialToken,
    Tool,
    ToolFormat,
    tool_guide,
)
from specguide.server.bodies.base_body import given
from specguide.server.tasks.custom_tools import KIND as CUSTOM
from specguide.server.tasks.tools import function_of


@dataclass(frozen=True)
class ToolChoice:
    """The tools that may be called. must_call: one must be; is_named: exactly that one, once"""

    tools: Sequence[Tool]
    must_call: bool = False
    is_named: bool = False

    @classmethod
    def of(cls, choice: str | Mapping[str, Any] | None, tools: Sequence[Tool]) -> ToolChoice | None:
        """The choice; None where no tool may be called. Raises InvalidParams."""
        if not tools:
            if choice not in (None, "none", "auto"):
                raise InvalidParams("tool_choice needs tools", param="tool_choice")
            return None
        if choice in (None, "auto"):
            return cls(tools)
        if choice == "none":
            return None
        if choice == "required":
            return cls(tools, must_call=True)
        if isinstance(choice, Mapping) and choice.get("type") in ("function", CUSTOM):
            return cls(_named([choice], tools), must_call=True, is_named=True)
        if isinstance(choice, Mapping) and choice.get("type") == "allowed_tools":
            allowed = given(choice, "allowed_tools", choice)
            names = allowed.get("tools") if isinstance(allowed, Mapping) else None
            if (
                isinstance(names, list)
                and names
                and given(allowed, "mode", "auto") in ("auto", "required")
            ):
                return cls(_named(names, tools), must_call=allowed.get("mode") == "required")
        raise InvalidParams(
            'tool_choice must be "none", "auto", "required", a function by its name or {"type": '
            '"allowed_tools", …} with the mode "auto" or "required" and tools',
            param="tool_choice",
        )

    def guide(
        self,
        tool_format: ToolFormat,
        special_token: SpecialToken,
        limits: GuideConfig,
        *,
        is_parallel: bool,
        answer: Guide | None,
        key_order: str | None = None,
    ) -> Guide:
        """The guide of the whole message. answer: the guide of a message without calls. key_order:
        see Guide. Raises InvalidParams."""
        schema = None
        if answer is not None:
            if answer.kind not in ("json_schema", "json_object"):
                raise InvalidParams(
                    "with tools, only a JSON schema can constrain the answer, found a "
                    f"{answer.kind}; leave one of them out",
                    param="tools",
                )
            schema = (
                {"type": "object"} if answer.kind == "json_object" else json.loads(answer.source())
            )
        return tool_guide(
            tool_format,
            self.tools,
            special_token,
            limits,
            must_call=self.must_call,
            is_parallel=is_parallel and not self.is_named,
            answer=schema,
            key_order=key_order,
        )

    def schema_params(self, answer: Guide | None, layout: CallLayout) -> tuple[str | None, ...]:
        """The request's fields with the guide's JSON Schemas, in the guide's order. layout: the
        guide's"""
        of_answer = () if answer is None or self.must_call else (answer.param,)
        counts = zip(self.tools, layout.num_schemas, strict=True)
        of_tools = ([tool.param] * num_schemas for tool, num_schemas in counts)
        return (*of_answer, *chain.from_iterable(of_tools))


def _named(choices: Sequence[Any], tools: Sequence[Tool]) -> list[Tool]:
    known = {tool.name: tool for tool in tools}
    found = []
    for choice in choices:
        function = function_of(choice) if isinstance(choice, Mapping) else {}
        name = function.get("name") if isinstance(function, Mapping) else None
        if name is None:
            raise InvalidParams(
                f"tool_choice must have the name of one of the tools {', '.join(known)}",
                param="tool_choice",
            )
        if not isinstance(name, str) or name not in known:
            raise InvalidParams(
                f"tool_choice names {name!r}, which is not one of the tools {', '.join(known)}",
                param="tool_choice",
            )
        found.append(known[name])
    return found
