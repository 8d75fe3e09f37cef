"""Owns the conversion of an output's pieces to events: text, reasoning and calls."""

from __future__ import annotations

import codecs
from collections.abc import Iterable

from specguide.guided.reading import Piece
from specguide.request_records import SpanTag
from specguide.server.tasks.custom_tools import KIND as CUSTOM
from specguide.server.tasks.custom_tools import InputText
from specguide.server.tasks.events import Arguments, CallBegin, Reasoned, Said, Text

_Channel = tuple[SpanTag, int | None]


class SaidPieces:
    """Converts the pieces of one sample.

    tells_reasoning: the client gets the reasoning
    custom_tools:    names of the tools that are called with a text
    """

    def __init__(
        self, *, tells_reasoning: bool, custom_tools: frozenset[str] = frozenset()
    ) -> None:
        self._tells_reasoning, self._custom_tools = tells_reasoning, custom_tools
        self._input: InputText | None = None  # of the call that is being written
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._channel: _Channel = ("content", None)

    def take(self, pieces: Iterable[Piece]) -> list[Said]:
        """The events of the next pieces."""
        said = list[Said]()
        shown = b""
        for piece in pieces:
            channel = (piece.part.tag, piece.part.call)
            if channel != self._channel:
                said += self._said(shown, is_last=True)
                self._channel = channel
                shown = b""
            if piece.part.role == "name":
                said.append(self._begin(piece.part.call or 0, piece.part.tool or ""))
            shown += piece.shown
        return said + self._said(shown)

    def finish(self) -> list[Said]:
        """The events at the end: the rest of a character that was cut off."""
        return self._said(b"", is_last=True)

    def _begin(self, call: int, name: str) -> CallBegin:
        is_custom = name in self._custom_tools
        self._input = InputText() if is_custom else None
        return CallBegin(call, name, kind=CUSTOM) if is_custom else CallBegin(call, name)

    def _said(self, shown: bytes, *, is_last: bool = False) -> list[Said]:
        """The event for more bytes of the current text, reasoning or call."""
        text = self._decoder.decode(shown, is_last)
        tag, call = self._channel
        if tag == "tool" and self._input is not None:
            text = self._input.feed(text)
        if not text:
            return []
        if tag == "tool":
            return [Arguments(call or 0, text)]
        if tag == "reasoning":
            return [Reasoned(text)] if self._tells_reasoning else []
        return [Text(text)]
