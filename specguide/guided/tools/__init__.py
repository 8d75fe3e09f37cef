"""Tool calls: how model families write them, and the grammars of messages that may contain some."""

from __future__ import annotations

from specguide.guided.tools.arguments_form import ArgumentsForm
from specguide.guided.tools.formats import ToolFormat, choose_tool_format, tool_formats
from specguide.guided.tools.functions import add_tool, arguments_schema, function_name
from specguide.guided.tools.grammar import tool_guide
from specguide.guided.tools.layout import CallLayout, SpecialToken
from specguide.guided.tools.message_rules import Tool

__all__ = [
    "ArgumentsForm",
    "CallLayout",
    "SpecialToken",
    "Tool",
    "ToolFormat",
    "add_tool",
    "arguments_schema",
    "choose_tool_format",
    "function_name",
    "tool_formats",
    "tool_guide",
]
