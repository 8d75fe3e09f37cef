"""Owns what a benchmark's prompt says to a model whose chat template shows neither tools nor
schemas, and how such a model's answer is read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from specguide.bench.tasks import Task

_TOOLS = (
    "You can call these tools:\n{}\nAnswer only with the JSON of one call: "
    '{{"name": the tool, "arguments": {{…}}}}'
)
_SCHEMA = "Answer only with JSON that matches this schema:\n{}"
_FENCE = "```"


def messages_of(task: Task, template: str | None) -> Sequence[Mapping[str, Any]]:
    """The task's messages. If the template does not show tools or schemas and no system message
    does, a system message with them is put in front."""
    template = template or ""
    if task.messages[0].get("role") == "system":
        return task.messages
    if task.tools and "tools" not in template:
        words = _TOOLS.format("\n".join(json.dumps(tool["function"]) for tool in task.tools))
    elif task.schema is not None and not task.tools and "json_schema" not in template:
        words = _SCHEMA.format(json.dumps(task.schema))
    else:
        return task.messages
    return ({"role": "system", "content": words}, *task.messages)


def bare(text: str) -> str:
    """The contents of the first code fence of an answer that is not JSON; the whole answer if there
    is none."""
    if _FENCE not in text or text.lstrip()[:1] in ("{", "["):
        return text
    return text.split(_FENCE)[1].removeprefix("json")
