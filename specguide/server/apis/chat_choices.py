"""Owns the choice of /v1/chat/completions for one sample: its text, tool calls and reasoning."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from specguide.server.apis.api import JsonObject
from specguide.server.apis.returned_ids import ReturnedIds
from specguide.server.tasks.custom_tools import CALLED_WITH
from specguide.server.tasks.events import CallBegin, End, Reasoned, Said, Text


@dataclass
class Choice:
    """One sample's choice, which grows with its events.

    is_legacy:     its call is written as `function_call`
    ids:           its token ids
    spans:         None: not asked for
    finish_reason: OpenAI's; None until it has ended
    stop_reason:   as in vLLM: the stop string or the id of `stop_token_ids` that ended it
    """

    index: int
    ids: ReturnedIds = field(default_factory=ReturnedIds)
    is_legacy: bool = False
    content: str = ""
    reasoning: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    logprobs: list[JsonObject] = field(default_factory=list)
    spans: list[JsonObject] | None = None
    finish_reason: str | None = None
    stop_reason: str | int | None = None

    def add(self, event: Said) -> JsonObject:
        """Take an event; returns OpenAI's delta for it."""
        if isinstance(event, Reasoned):
            self.reasoning += event.text
            return _reasoned(event.text)
        if isinstance(event, Text):
            self.content += event.text
            return {"content": event.text} if event.text else {}
        if isinstance(event, CallBegin):
            called = {"name": event.name, CALLED_WITH[event.kind]: ""}
            call = {"id": f"call_{secrets.token_hex(12)}", "type": event.kind}
            self.calls.append({**call, event.kind: {**called}})
            return self._called({"index": event.index, **call, event.kind: called})
        kind = self.calls[event.index]["type"]
        written = CALLED_WITH[kind]
        self.calls[event.index][kind][written] += event.text
        return self._called({"index": event.index, kind: {written: event.text}})

    def _called(self, call: JsonObject) -> JsonObject:
        return {"function_call": call["function"]} if self.is_legacy else {"tool_calls": [call]}

    def end(self, end: End) -> JsonObject:
        """End the choice; returns its finish and stop reasons."""
        called = "function_call" if self.is_legacy else "tool_calls"
        is_call = end.finish_reason == "stop" and self.calls
        self.finish_reason = called if is_call else end.finish_reason
        self.stop_reason = end.stop_reason
        return self._why()

    def _why(self) -> JsonObject:
        return {"finish_reason": self.finish_reason, "stop_reason": self.stop_reason}

    def whole(self) -> JsonObject:
        """The whole choice, once it has ended."""
        message: JsonObject = {
            "role": "assistant",
            "content": self.content or (None if self.calls else ""),
            "refusal": None,
        }
        if self.reasoning:
            message |= _reasoned(self.reasoning)
        if self.calls and self.is_legacy:
            message["function_call"] = self.calls[0]["function"]
        elif self.calls:
            message["tool_calls"] = self.calls
        return {
            "index": self.index,
            "message": message,
            **self._why(),
            "logprobs": logprobs_object(self.logprobs),
            **({} if self.spans is None else {"spans": self.spans}),
            **self.ids.rest(),
        }


def _reasoned(text: str) -> JsonObject:
    """Reasoning, which OpenAI's API does not have, under both names that clients know: that of
    DeepSeek, which SGLang adopted, and that of newer releases of vLLM."""
    return {"reasoning_content": text, "reasoning": text}


def logprobs_object(scores: Sequence[JsonObject]) -> JsonObject | None:
    """Scores of tokens, in the form of a choice's `logprobs`."""
    return {"content": scores, "refusal": None} if scores else None
