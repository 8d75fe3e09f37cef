"""Owns the tools of a request in OpenAI's form: their functions, checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from specguide.errors import InvalidGuide, InvalidParams
from specguide.guide.guide import check_finite
from specguide.guided.tools import Tool, add_tool, arguments_schema, function_name
from specguide.server.bodies.base_body import given
from specguide.server.tasks.custom_tools import KIND as CUSTOM
from specguide.server.tasks.custom_tools import custom_function
from specguide.server.tasks.schemas import AS_THEY_ARE, SchemaRules


@dataclass(frozen=True)
class ToolFields:
    """The fields of a request that have its tools.

    places:     the fields of the tools that are functions; None: `tools`, which has nothing else
    parameters: the field of a function that has its schema
    """

    places: Sequence[str] | None = None
    parameters: str = "parameters"

    def place(self, index: int) -> str:
        """The field of a tool in the body."""
        return f"tools[{index}]" if self.places is None else self.places[index]


OF_OPENAI = ToolFields()


def tool_of(
    function: Mapping[str, Any], param: str, schema_param: str, schemas: SchemaRules
) -> Tool:
    """The tool of a function of the OpenAI API. Raises InvalidParams and InvalidGuide, which name
    the wrong field.

    param, schema_param: the request's fields of the function, and of its schema
    """
    name = function_name(function.get("name"), f"{param}.name")
    parameters = function.get("parameters")
    if function.get("strict"):
        schemas.check_strict(parameters, f"function '{name}'", schema_param)
    if parameters is None:
        _check_names(function, param)
    schema = arguments_schema(name, parameters, schema_param)
    try:
        check_finite(schema, schema_param)
    except InvalidGuide as error:
        error.param = schema_param
        raise
    return Tool(name, schemas.closed(schema), schema_param)


def _check_names(function: Mapping[str, Any], param: str) -> None:
    """Check a function without parameters. Raises InvalidParams where it has them under another
    name."""
    for other in ("input_schema", "inputSchema", "schema"):
        if function.get(other) is not None:
            raise InvalidParams(
                f"the schema of function {function['name']!r} must be called parameters, found "
                f"{other}",
                param=f"{param}.{other}",
            )


def _check_beside(definition: Mapping[str, Any], place: str) -> None:
    """Check a tool whose inner function has no parameters. Raises InvalidParams where they are
    beside it."""
    if definition.get("parameters") is not None:
        raise InvalidParams(
            "the parameters of a function must be within the inner function: move them there",
            param=f"{place}.parameters",
        )


def function_of(definition: Mapping[str, Any], param: str = "tools") -> Any:
    """The function of a tool or of a choice of one, without nulls; chat has it under "function",
    responses have it beside "type". Raises InvalidParams for an invalid custom tool.

    param: the request's field of the definition
    """
    if definition.get("type") == CUSTOM:
        return custom_function(definition, param)
    beside = {name: value for name, value in definition.items() if name != "type"}
    function = given(definition, "function", beside)
    if not isinstance(function, Mapping):
        return function
    return {name: value for name, value in function.items() if value is not None}


def tools_of(
    definitions: Sequence[Mapping[str, Any]],
    schemas: SchemaRules = AS_THEY_ARE,
    named: ToolFields = OF_OPENAI,
) -> list[Tool]:
    """The tools of a request. Raises InvalidParams and InvalidGuide, which name the tool. Schemas
    are checked when they are compiled."""
    tools: dict[str, Tool] = {}
    for index, definition in enumerate(definitions):
        kind, place = given(definition, "type", "function"), named.place(index)
        is_known = kind in ("function", CUSTOM)
        param = f"{place}.{kind}" if is_known and definition.get(kind) is not None else place
        function = function_of(definition, param) if is_known else None
        if not isinstance(function, Mapping):
            raise InvalidParams(
                "a tool must be of type function or custom, which the client runs, found type "
                f"{kind!r}; write "
                '{"type": "function", "function": {"name": …, "parameters": …}}, or the same '
                'without an inner "function"',
                param=place,
            )
        if definition.get("function") is not None and function.get("parameters") is None:
            _check_beside(definition, place)
        schema_param = "format" if kind == CUSTOM else named.parameters
        tool = tool_of(function, param, f"{param}.{schema_param}", schemas)
        add_tool(tools, tool, f"{param}.name")
    return list(tools.values())
