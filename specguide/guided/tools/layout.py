"""Owns what the grammar of a message with tools fixes of its text, for whoever reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from specguide.guided.tools.formats import ToolFormat


@dataclass(frozen=True)
class CallLayout:
    """Of a guide that `tool_guide` has made.

    special_ids: of the format's marks that are special tokens
    texts:       by tool, for all of them, the arguments that are written as they are, not as JSON
    must_call:   it is calls, and no text
    has_answer:  what is not calls is JSON, and no free text
    """

    tool_format: ToolFormat
    special_ids: Mapping[str, int]
    texts: Mapping[str, frozenset[str]]
    must_call: bool = False
    has_answer: bool = False

    @cached_property
    def names(self) -> frozenset[bytes]:
        """Of the tools."""
        return frozenset(name.encode() for name in self.texts)

    @cached_property
    def longest_name(self) -> int:
        """In bytes."""
        return max(map(len, self.names), default=0)
