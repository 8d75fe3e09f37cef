"""Owns the output items of /v1/responses (messages, reasoning and calls) and the events by which
they grow, not yet numbered."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from specguide.server.apis.api import JsonObject


def _new_id(prefix: str) -> str:
    return f"{prefix}_{secrets.token_hex(12)}"


@dataclass
class Item(ABC):
    """An item of an answer. status: "in_progress", "completed" or "incomplete" """

    id_prefix: ClassVar[str]
    output_index: int
    status: str = field(default="in_progress", kw_only=True)
    id: str = field(init=False)

    def __post_init__(self) -> None:
        self.id = _new_id(self.id_prefix)

    @abstractmethod
    def item(self) -> JsonObject:
        """The item in OpenAI's form."""

    def begin(self) -> Iterator[JsonObject]:
        """The objects that begin the item."""
        yield self._item_event("added")

    def end(self, status: str) -> Iterator[JsonObject]:
        """The objects that end the complete item."""
        self.status = status
        yield from self._text_done()
        yield self._item_event("done")

    @abstractmethod
    def _text_done(self) -> Iterator[JsonObject]:
        """The objects with its complete text."""

    def _item_event(self, what: str) -> JsonObject:
        return {
            "type": f"response.output_item.{what}",
            "output_index": self.output_index,
            "item": self.item(),
        }

    def _event(self, kind: str, **fields: Any) -> JsonObject:
        return {
            "type": f"response.{kind}",
            "item_id": self.id,
            "output_index": self.output_index,
            **fields,
        }


@dataclass
class Message(Item):
    """A message of one text part."""

    id_prefix = "msg"
    text: str = ""
    logprobs: list[JsonObject] = field(default_factory=list)

    def item(self) -> JsonObject:
        return {
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "status": self.status,
            "content": [self._part()] if self.text or self.status != "in_progress" else [],
        }

    def begin(self) -> Iterator[JsonObject]:
        """The objects that begin the item and its part."""
        yield from super().begin()
        yield self._of_part("content_part.added", part=self._part())

    def add(self, text: str, scores: Sequence[JsonObject]) -> JsonObject:
        """Add text, with the log-probabilities of its tokens."""
        self.text += text
        self.logprobs += scores
        return self._of_part("output_text.delta", delta=text, logprobs=list(scores))

    def _text_done(self) -> Iterator[JsonObject]:
        yield self._of_part("output_text.done", text=self.text, logprobs=self.logprobs)
        yield self._of_part("content_part.done", part=self._part())

    def _part(self) -> JsonObject:
        return {
            "type": "output_text",
            "text": self.text,
            "annotations": [],
            "logprobs": list(self.logprobs),
        }

    def _of_part(self, kind: str, **fields: Any) -> JsonObject:
        return self._event(kind, content_index=0, **fields)


@dataclass
class Thought(Item):
    """The model's reasoning."""

    id_prefix = "rs"
    text: str = ""

    def item(self) -> JsonObject:
        return {
            "id": self.id,
            "type": "reasoning",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": self.text}] if self.text else [],
            "encrypted_content": None,
            "status": self.status,
        }

    def add(self, text: str) -> JsonObject:
        """Add text."""
        self.text += text
        return self._event("reasoning_text.delta", content_index=0, delta=text)

    def _text_done(self) -> Iterator[JsonObject]:
        yield self._event("reasoning_text.done", content_index=0, text=self.text)


@dataclass
class Call(Item):
    """A function call. namespace: the function's, if it has one"""

    id_prefix = "fc"
    kind: ClassVar[str] = "function_call"
    written: ClassVar[str] = "arguments"
    name: str
    namespace: str | None = None
    text: str = ""
    call_id: str = field(default_factory=lambda: _new_id("call"))

    def item(self) -> JsonObject:
        return {
            "id": self.id,
            "type": self.kind,
            "status": self.status,
            "call_id": self.call_id,
            "name": self.name,
            self.written: self.text,
            **({} if self.namespace is None else {"namespace": self.namespace}),
        }

    def add(self, text: str) -> JsonObject:
        """Add more of its arguments."""
        self.text += text
        return self._event(f"{self.kind}_{self.written}.delta", delta=text)

    def _text_done(self) -> Iterator[JsonObject]:
        fields = {"name": self.name, self.written: self.text}
        yield self._event(f"{self.kind}_{self.written}.done", **fields)


@dataclass
class CustomCall(Call):
    """A call of a custom tool, whose input is a text."""

    id_prefix = "ctc"
    kind = "custom_tool_call"
    written = "input"
