"""Owns the layout of a message with tools: the parts of its text that the grammar fixes, for
readers of the output."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from specguide.guided.tools.formats import ToolFormat
from specguide.guided.tools.shapes import ObjectShape

SpecialToken = Callable[[str], int | None]
"""A function that gives the id of a special token; None for other texts."""


@dataclass(frozen=True)
class CallLayout:
    """The parts of a message that a guide of `tool_guide` fixes.

    special_ids: ids of the format's marks that are special tokens, by their texts
    arguments:   for each tool, the shape of its arguments where they are written one by one
    must_call:   the message is calls, and not text
    has_answer:  a message without calls is JSON, and not free text
    num_schemas: for each tool in order, the number of JSON schemas in the grammar of its arguments
    """

    tool_format: ToolFormat
    special_ids: Mapping[str, int]
    arguments: Mapping[str, ObjectShape]
    must_call: bool = False
    has_answer: bool = False
    num_schemas: Sequence[int] = ()

    @cached_property
    def names(self) -> frozenset[bytes]:
        """The names of the tools, in UTF-8."""
        return frozenset(name.encode() for name in self.arguments)

    @cached_property
    def longest_name(self) -> int:
        """Length of the longest name in bytes; 0 where there is no tool."""
        return max(map(len, self.names), default=0)
