"""The chat format: special tokens, the Jinja chat template, and the same rendering in Python for
the generator."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

BEGIN, END, PAD = "<|begin|>", "<|end|>", "<|pad|>"
SYSTEM, USER, ASSISTANT, TOOL = "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>"
THINK_START, THINK_END = "<think>", "</think>"
CALL_START, CALL_END = "<tool_call>", "</tool_call>"
CONTROL_TOKENS = [PAD, BEGIN, END, SYSTEM, USER, ASSISTANT, TOOL]
MARKER_TOKENS = [
    THINK_START,
    THINK_END,
    CALL_START,
    CALL_END,
]  # visible in decoded text, as parsers expect

SCHEMA_INTRO = "Answer with JSON that matches this schema:\n"
TOOLS_INTRO = "Call a tool if one fits:\n"

CHAT_TEMPLATE = (
    "{{- bos_token }}"
    "{%- set first = messages[0]['content'] if messages and messages[0]['role'] == 'system' else "
    "'' %}"
    "{%- set schema = json_schema if json_schema is defined and json_schema else '' %}"
    "{%- if first or tools or schema %}"
    "{{- '<|system|>' + first }}"
    "{%- if tools %}{{- ('\\n' if first else '') + 'Call a tool if one fits:' }}"
    "{%- for tool in tools %}{{- '\\n' + (tool | tojson) }}{%- endfor %}{%- endif %}"
    "{%- if schema %}{{- ('\\n' if first or tools else '') }}"
    "{{- 'Answer with JSON that matches this schema:\\n' + schema }}{%- endif %}"
    "{{- '<|end|>' }}"
    "{%- endif %}"
    "{%- for message in messages %}"
    "{%- if message['role'] == 'assistant' %}"
    "{{- '<|assistant|>' + (message['content'] or '') }}"
    "{%- if message['tool_calls'] %}{%- for call in message['tool_calls'] %}"
    "{%- set function = call['function'] if call['function'] is defined else call %}"
    "{{- '<tool_call>\\n{\"name\": \"' + function['name'] + '\", \"arguments\": ' }}"
    "{{- function['arguments'] if function['arguments'] is string else (function['arguments'] | "
    "tojson) }}"
    "{{- '}\\n</tool_call>' }}"
    "{%- endfor %}{%- endif %}"
    "{{- '<|end|>' }}"
    "{%- elif message['role'] != 'system' %}"
    "{{- '<|' + message['role'] + '|>' + message['content'] + '<|end|>' }}"
    "{%- elif not loop.first %}"
    "{{- '<|system|>' + message['content'] + '<|end|>' }}"
    "{%- endif %}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|assistant|>' }}{%- endif %}"
)


@dataclass(frozen=True, slots=True)
class Task:
    """One training or evaluation example; `answer` is the assistant's text without the end
    token."""

    text: str
    answer: str
    schema: str | None = None
    tools: tuple[dict[str, Any], ...] = ()
    system: str = ""
    kind: str = ""


def call_text(call: str) -> str:
    """A tool call as the assistant writes it."""
    return f"{CALL_START}\n{call}\n{CALL_END}"


def render_prompt(task: Task) -> str:
    """The prompt text, equal to `apply_chat_template(messages, tools=…, json_schema=…,
    add_generation_prompt=True)`."""
    parts = [BEGIN]
    if task.system or task.tools or task.schema:
        head = [task.system] if task.system else []
        if task.tools:
            head.append(
                TOOLS_INTRO + "\n".join(json.dumps(tool, ensure_ascii=False) for tool in task.tools)
            )
        if task.schema:
            head.append(SCHEMA_INTRO + task.schema)
        parts += [SYSTEM, "\n".join(head), END]
    parts += [USER, task.text, END, ASSISTANT]
    return "".join(parts)


def messages_of(task: Task) -> list[dict[str, str]]:
    """The task's messages in the form that chat templates take."""
    system = [{"role": "system", "content": task.system}] if task.system else []
    return [*system, {"role": "user", "content": task.text}]
