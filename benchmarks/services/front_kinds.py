"""Owns what the front's benchmark asks for: kinds of requests, what the engine gives each, and what
must come of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from specguide.tokenizer import Tokenizer

_TEXT = "The weather stayed dry for most of the day, said Zoë; ünd 明日 it may rain again 🌧. "
_FEWEST_TOKENS = 16
"""Fewest tokens of the text."""
_SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
_MESSAGES = [{"role": "user", "content": "Say it."}]
_TOOL = {"type": "function", "function": {"name": "say", "parameters": _SCHEMA}}
_FORMAT = {"type": "json_schema", "json_schema": {"name": "answer", "schema": _SCHEMA}}
NUM_RIVALS = 5
"""Log-probabilities of a token beside its own."""


@dataclass(frozen=True)
class Kind:
    """A kind of request.

    fields:   of its body
    begin:    text with which its output begins, before the text that goes on for ever
    num_said: characters of `begin` that a client does not read
    read:     what a client reads of a chunk's choice
    path:     that it is posted to, behind /v1
    server:   fields of ServerConfig that it needs
    """

    fields: dict[str, Any]
    read: Callable[[dict[str, Any]], str]
    begin: str = ""
    num_said: int = 0
    path: str = "chat/completions"
    server: dict[str, Any] = field(default_factory=dict)

    def body(self, number: int, max_tokens: int) -> bytes:
        """The request of a client."""
        sizes = {"model": "small", "max_tokens": max_tokens, "seed": number, "stream": True}
        return json.dumps({**sizes, **self.fields}).encode()

    def output_ids(self, tokenizer: Tokenizer, number: int, num_tokens: int) -> list[int]:
        """What the engine gives a client."""
        at = number % len(_TEXT)
        text = self.begin + (_TEXT[at:] + _TEXT[:at]) * (1 + num_tokens // _FEWEST_TOKENS)
        return tokenizer.encode(text, add_special_tokens=False)[:num_tokens]

    def expected(self, tokenizer: Tokenizer, number: int, num_tokens: int) -> str:
        """What a client reads in the end."""
        ids = self.output_ids(tokenizer, number, num_tokens)
        return tokenizer.decode(ids, skip_special_tokens=False)[self.num_said :]


def _of_delta(name: str) -> Callable[[dict[str, Any]], str]:
    return lambda choice: choice["delta"].get(name) or ""


def _arguments(choice: dict[str, Any]) -> str:
    calls = choice["delta"].get("tool_calls", ())
    return "".join(call["function"]["arguments"] for call in calls)


_CHAT = {"messages": _MESSAGES}
_CALL = '<tool_call>\n{"name": "say", "arguments": '
_ARGUMENTS = '{"text": "'
_THINK = "<think>\n"
KINDS = {
    "completions": Kind({"prompt": "It was"}, lambda choice: choice["text"], path="completions"),
    "chat": Kind(_CHAT, _of_delta("content")),
    "guided": Kind({**_CHAT, "response_format": _FORMAT}, _of_delta("content"), _ARGUMENTS),
    "tools": Kind(
        {**_CHAT, "tools": [_TOOL], "tool_choice": "required"},
        _arguments,
        _CALL + _ARGUMENTS,
        len(_CALL),
    ),
    "reasoning": Kind(
        _CHAT,
        _of_delta("reasoning_content"),
        _THINK,
        len(_THINK),
        server={"reasoning_format": "qwen3"},
    ),
    "logprobs": Kind({**_CHAT, "logprobs": True, "top_logprobs": NUM_RIVALS}, _of_delta("content")),
}
