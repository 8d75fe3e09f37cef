"""Owns the check of functions that a model may call: their names, and the schemas of their
arguments."""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any

from specguide.errors import InvalidParams
from specguide.guided.tools.message_rules import Tool
from specguide.inputs.json_fields import shown

_MAX_NAME = 128
_OF_NAMES = frozenset(string.ascii_letters + string.digits + "_.-")


def function_name(name: Any, param: str) -> str:
    """The name of a function. Raises InvalidParams for another value. param: the field of it"""
    is_name = isinstance(name, str) and 1 <= len(name) <= _MAX_NAME
    if is_name and _OF_NAMES.issuperset(name):
        return name
    raise InvalidParams(
        f"a function's name must be 1 to {_MAX_NAME} letters, digits, _, . or -, found "
        f"{shown(name)}",
        param=param,
    )


def arguments_schema(name: str, parameters: Any, param: str) -> dict[str, Any]:
    """The JSON schema of a function's arguments, of type object; a function without `parameters`
    takes none. Raises InvalidParams. param: the field of the schema"""
    if parameters is None:
        return {"type": "object", "properties": {}, "additionalProperties": False}
    if not isinstance(parameters, Mapping) or parameters.get("type", "object") != "object":
        raise InvalidParams(
            f"the parameters of function {name!r} must be a JSON schema of type object, found "
            f"{shown(parameters)}",
            param=param,
        )
    return {"type": "object", **parameters}


def add_tool(tools: dict[str, Tool], tool: Tool, param: str) -> None:
    """Add a tool by its name. Raises InvalidParams where another one has that name. param: the
    field of the name"""
    if tool.name in tools:
        raise InvalidParams(
            f"two tools are named {tool.name!r}; give each a name of its own", param=param
        )
    tools[tool.name] = tool
