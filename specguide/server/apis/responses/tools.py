"""Owns the tools of /v1/responses that are not plain functions: namespaces of functions, and tools
that OpenAI runs itself.

The model knows a function of a namespace by a name that includes the namespace's. Tools that OpenAI
runs are never called here: they are left out, and reported to the client as ignored fields.

Source: OpenAI, "Responses" (platform.openai.com/docs/api-reference/responses): tools.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from specguide.errors import InvalidParams
from specguide.server.bodies.built_in_tools import Definition, is_run_elsewhere

_Function = tuple[str, str | None, dict[str, Any]]
"""A function, after its field and its namespace."""


def flat_name(namespace: str | None, name: str) -> str:
    """A function's name for the model."""
    return name if namespace is None else f"{namespace.rstrip('_')}__{name}"


def flat_functions(tools: Sequence[Definition]) -> list[dict[str, Any]]:
    """All functions of a request in one list. Raises InvalidParams naming the tool."""
    return [
        {**function, "name": flat_name(namespace, function["name"])} if namespace else function
        for _, namespace, function in _functions(tools)
    ]


def function_places(tools: Sequence[Definition]) -> list[str]:
    """The field of each of these functions."""
    return [place for place, _, _ in _functions(tools)]


def namespaces(tools: Sequence[Definition]) -> dict[str, tuple[str, str]]:
    """The namespace of each function and its name in it, by the function's name for the model."""
    return {
        flat_name(namespace, function["name"]): (namespace, function["name"])
        for _, namespace, function in _functions(tools)
        if namespace
    }


def _functions(tools: Sequence[Definition]) -> Iterator[_Function]:
    for index, tool in enumerate(tools):
        if tool.get("type") == "namespace":
            yield from _of_namespace(tool, f"tools[{index}]")
        elif not is_run_elsewhere(tool):
            yield f"tools[{index}]", None, dict(tool)


def _of_namespace(space: Definition, param: str) -> Iterator[_Function]:
    name, tools = space.get("name"), space.get("tools")
    if not isinstance(name, str) or not name or not isinstance(tools, list):
        raise InvalidParams("a namespace needs a name and a list of tools", param=param)
    for index, tool in enumerate(tools):
        if not isinstance(tool, Mapping) or tool.get("type") != "function":
            raise InvalidParams(
                "each tool of a namespace must be of type function", param=f"{param}.tools[{index}]"
            )
        if not isinstance(tool.get("name"), str):
            raise InvalidParams("a function needs a name", param=f"{param}.tools[{index}].name")
        yield f"{param}.tools[{index}]", name, dict(tool)
