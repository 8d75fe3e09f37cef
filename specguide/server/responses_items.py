"""Owns the output items of /v1/responses, messages, reasoning and function calls, and the events
that tell how they grow, which have no numbers yet."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from specguide.server.api import JsonObject


@dataclass
class Message:
    """A message of one text part. status: "in_progress", "completed" or "incomplete" """

    output_index: int
    text: str = ""
    logprobs: list[JsonObject] = field(default_factory=list)
    status: str = "in_progress"
    id: str = field(default_factory=lambda: f"msg_{secrets.token_hex(12)}")

    def item(self) -> dict[str, Any]:
        """As OpenAI has it."""
        return {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "status": self.status,
            "content": [self._part()] if self.text or self.status != "in_progress" else [],
        }

    def begin(self) -> Iterator[JsonObject]:
        """The item and its part are there."""
        yield _of_item("added", self)
        yield self._of_part("content_part.added", part=self._part())

    def add(self, text: str, scores: Sequence[JsonObject]) -> JsonObject:
        """More text, and the log-probabilities of its tokens."""
        self.text += text
        self.logprobs += scores
        return self._of_part("output_text.delta", delta=text, logprobs=list(scores))

    def end(self, status: str) -> Iterator[JsonObject]:
        """The objects that end the item, of which all is there."""
        self.status = status
        yield self._of_part("output_text.done", text=self.text, logprobs=self.logprobs)
        yield self._of_part("content_part.done", part=self._part())
        yield _of_item("done", self)

    def _part(self) -> dict[str, Any]:
        return {
            "type": "output_text",
            "text": self.text,
            "annotations": [],
            "logprobs": list(self.logprobs),
        }

    def _of_part(self, kind: str, **fields: Any) -> JsonObject:
        return {
            "type": f"response.{kind}",
            "item_id": self.id,
            "output_index": self.output_index,
            "content_index": 0,
            **fields,
        }


@dataclass
class Thought:
    """What the model thinks. status: as a message's"""

    output_index: int
    text: str = ""
    status: str = "in_progress"
    id: str = field(default_factory=lambda: f"rs_{secrets.token_hex(12)}")

    def item(self) -> dict[str, Any]:
        """As OpenAI has it."""
        return {
            "id": self.id,
            "type": "reasoning",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": self.text}] if self.text else [],
            "encrypted_content": None,
            "status": self.status,
        }

    def begin(self) -> Iterator[JsonObject]:
        """The item is there."""
        yield _of_item("added", self)

    def add(self, text: str) -> JsonObject:
        """Add more of the text."""
        self.text += text
        return self._of_text("delta", delta=text)

    def end(self, status: str) -> Iterator[JsonObject]:
        """The objects that end the item, of which all is there."""
        self.status = status
        yield self._of_text("done", text=self.text)
        yield _of_item("done", self)

    def _of_text(self, kind: str, **fields: Any) -> JsonObject:
        return {
            "type": f"response.reasoning_text.{kind}",
            "item_id": self.id,
            "output_index": self.output_index,
            "content_index": 0,
            **fields,
        }


@dataclass
class Call:
    """A function call. namespace: of the function, where it is in one; status: as a message's"""

    output_index: int
    name: str
    namespace: str | None = None
    arguments: str = ""
    status: str = "in_progress"
    id: str = field(default_factory=lambda: f"fc_{secrets.token_hex(12)}")
    call_id: str = field(default_factory=lambda: f"call_{secrets.token_hex(12)}")

    def item(self) -> dict[str, Any]:
        """As OpenAI has it."""
        return {
            "id": self.id,
            "type": "function_call",
            "status": self.status,
            "call_id": self.call_id,
            "name": self.name,
            "arguments": self.arguments,
            **({} if self.namespace is None else {"namespace": self.namespace}),
        }

    def begin(self) -> Iterator[JsonObject]:
        """The item is there."""
        yield _of_item("added", self)

    def add(self, text: str) -> JsonObject:
        """Add more of the arguments."""
        self.arguments += text
        return self._of_arguments("delta", delta=text)

    def end(self, status: str) -> Iterator[JsonObject]:
        """The objects that end the item, of which all is there."""
        self.status = status
        yield self._of_arguments("done", name=self.name, arguments=self.arguments)
        yield _of_item("done", self)

    def _of_arguments(self, kind: str, **fields: Any) -> JsonObject:
        return {
            "type": f"response.function_call_arguments.{kind}",
            "item_id": self.id,
            "output_index": self.output_index,
            **fields,
        }


Item = Message | Thought | Call


def _of_item(kind: str, one: Item) -> JsonObject:
    return {
        "type": f"response.output_item.{kind}",
        "output_index": one.output_index,
        "item": one.item(),
    }
