"""Owns the list of tools that OpenAI runs itself; they are never called here.

Source: OpenAI, "Responses" (platform.openai.com/docs/api-reference/responses): tools.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_RUN_ELSEWHERE = frozenset(
    {
        "apply_patch",
        "code_interpreter",
        "computer",
        "computer_use_preview",
        "file_search",
        "image_generation",
        "local_shell",
        "mcp",
        "programmatic_tool_calling",
        "shell",
        "tool_search",
        "web_search",
        "web_search_preview",
    }
)
Definition = Mapping[str, Any]


def is_run_elsewhere(tool: Definition) -> bool:
    """Whether this is one of OpenAI's built-in tools, in any of its versions."""
    kind = tool.get("type")
    return isinstance(kind, str) and (
        kind in _RUN_ELSEWHERE or kind.startswith("web_search_preview_")
    )
