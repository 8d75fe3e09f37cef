"""Owns how the pieces of a sample's output become events: text, reasoning and calls."""

from __future__ import annotations

import codecs
from collections.abc import Iterable

from specguide.guided.reading import Piece
from specguide.request_records import SpanTag
from specguide.server.tasks.events import Arguments, CallBegin, Reasoned, Said, Text

_Channel = tuple[SpanTag, int | None]


class SaidPieces:
    """What one sample says, in pieces. tells_reasoning: its client wants to read the reasoning"""

    def __init__(self, *, tells_reasoning: bool) -> None:
        self._tells_reasoning = tells_reasoning
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._channel: _Channel = ("content", None)

    def take(self, pieces: Iterable[Piece]) -> list[Said]:
        """What the next pieces add."""
        said = list[Said]()
        shown = b""
        for piece in pieces:
            channel = (piece.part.tag, piece.part.call)
            if channel != self._channel:
                said += self._said(shown, is_last=True)
                self._channel = channel
                shown = b""
            if piece.part.role == "name":
                said.append(CallBegin(piece.part.call or 0, piece.part.tool or ""))
            shown += piece.shown
        return said + self._said(shown)

    def finish(self) -> list[Said]:
        """No more come: what is left of a character that was cut off."""
        return self._said(b"", is_last=True)

    def _said(self, shown: bytes, *, is_last: bool = False) -> list[Said]:
        """More of what is being said."""
        text = self._decoder.decode(shown, is_last)
        tag, call = self._channel
        if not text:
            return []
        if tag == "tool":
            return [Arguments(call or 0, text)]
        if tag == "reasoning":
            return [Reasoned(text)] if self._tells_reasoning else []
        return [Text(text)]
