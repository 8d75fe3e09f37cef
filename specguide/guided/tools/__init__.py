"""Tool calls: how model families write them, and the grammar of a message that may have some."""

from __future__ import annotations

from specguide.guided.tools.argument_schemas import ArgumentsForm, num_schemas, text_arguments
from specguide.guided.tools.formats import ToolFormat, choose_tool_format, tool_formats
from specguide.guided.tools.grammar import Tool, tool_guide
from specguide.guided.tools.layout import CallLayout, SpecialToken

__all__ = [
    "ArgumentsForm",
    "CallLayout",
    "SpecialToken",
    "Tool",
    "ToolFormat",
    "choose_tool_format",
    "num_schemas",
    "text_arguments",
    "tool_formats",
    "tool_guide",
]
