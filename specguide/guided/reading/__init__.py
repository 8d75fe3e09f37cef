"""Reads outputs while they are written: their reasoning, text, calls and fields, by the structure
that the guide fixes."""

from __future__ import annotations

from specguide.guided.reading.cursor import Part, Piece
from specguide.guided.reading.form import OutputForm, ReasoningMarks
from specguide.guided.reading.reader import OutputReader
from specguide.guided.reading.spans import SpanReader
from specguide.guided.reading.spelled import SpelledTokens

__all__ = [
    "OutputForm",
    "OutputReader",
    "Part",
    "Piece",
    "ReasoningMarks",
    "SpanReader",
    "SpelledTokens",
]
