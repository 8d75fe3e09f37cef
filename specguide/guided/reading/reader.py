"""Owns the reading of one output while it is written: its reasoning, and then the rest by its
form."""

from __future__ import annotations

import re

from specguide.guided.reading.calls import CONTENT, CONTENT_JSON, CONTENT_MARK, CallReader
from specguide.guided.reading.cursor import Cursor, Part, Piece, Steps
from specguide.guided.reading.form import OutputForm, ReasoningMarks
from specguide.guided.reading.json_reader import JsonReader
from specguide.guided.reading.tags import TagReader

_REASONING = Part("reasoning", "text")
_REASONING_MARK = Part("reasoning", "punctuation")
_SPACE = re.compile(rb"\s*")


class OutputReader:
    """Reads an output, spelled by SpelledTokens, in stretches of any size; the result does not
    depend on the sizes. Time is linear in the bytes.

    is_reasoning: reading may be inside the reasoning section
    has_reasoned: the output has such a section
    """

    def __init__(self, form: OutputForm) -> None:
        self.is_reasoning = form.reasoning is not None
        self.has_reasoned = False
        self._form = form
        self._cursor = Cursor()
        self._steps = self._read()
        next(self._steps)

    def feed(self, data: bytes) -> list[Piece]:
        """Read more bytes. Returns the pieces that have become certain, in order."""
        self._cursor.add(data)
        next(self._steps, None)
        return self._cursor.drain()

    def finish(self) -> list[Piece]:
        """End the output. Returns the pieces that were held back."""
        self._cursor.is_over = True
        next(self._steps, None)
        return self._cursor.drain()

    def _read(self) -> Steps[None]:
        cursor, form = self._cursor, self._form
        yield
        if form.reasoning is not None:
            yield from self._reasoning(form.reasoning)
            self.is_reasoning = False
        if form.calls is not None:
            yield from CallReader(cursor, form.calls, form.show).read()
        elif form.tags is not None:
            yield from TagReader(cursor, form.tags).read()
        elif form.is_json:
            yield from JsonReader(cursor, CONTENT_JSON).read()
            yield from cursor.rest(CONTENT_JSON)
        elif form.after and (yield from cursor.text((form.after,), CONTENT, form.show)):
            cursor.mark(form.after, CONTENT_MARK)
        yield from cursor.rest(CONTENT, form.show)

    def _reasoning(self, marks: ReasoningMarks) -> Steps[None]:
        cursor = self._cursor
        if marks.begin is not None and not (yield from self._begin(marks.begin, marks)):
            return
        self.has_reasoned = True
        yield from self._line_breaks(_REASONING_MARK)
        ends = (marks.end, marks.cut_by) if marks.cut_by else (marks.end,)
        if (yield from cursor.text(ends, _REASONING, self._form.show)):
            self.is_reasoning = False
            if not cursor.data.startswith(marks.end, cursor.at):
                return
            cursor.mark(marks.end, _REASONING_MARK)
            yield from self._line_breaks(CONTENT_MARK)

    def _begin(self, begin: bytes, marks: ReasoningMarks) -> Steps[bool]:
        """Whether the reasoning section comes. Takes the answer's mark, or the section's end, where
        one of these comes instead."""
        cursor, instead = self._cursor, [one for one in (marks.answer, marks.end) if one]
        while True:
            space = _SPACE.match(cursor.data, cursor.at)
            start = cursor.at if space is None else space.end()
            rest = cursor.data[start:]
            if rest.startswith(begin):
                cursor.take(start + len(begin), _REASONING_MARK, b"")
                return True
            if found_mark := next((one for one in instead if rest.startswith(one)), None):
                cursor.take(start + len(found_mark), CONTENT_MARK, b"")
                return False
            may_come = any(one.startswith(rest) for one in (begin, *instead))
            if cursor.is_over or not may_come:
                return False
            yield

    def _line_breaks(self, part: Part) -> Steps[None]:
        """Take the line breaks behind a mark, which are not part of the text."""
        cursor = self._cursor
        while (yield from cursor.more()):
            end = cursor.at
            while cursor.data[end : end + 1] == b"\n":
                end += 1
            cursor.take(end, part, b"")
            if end < len(cursor.data):
                return
