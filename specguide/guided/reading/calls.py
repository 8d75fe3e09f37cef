"""Owns reading a message that may call tools while it is written: text, which tool, arguments."""

from __future__ import annotations

from itertools import count

from specguide.guided.reading.arguments import ArgumentMarks, ListedReader, nothing
from specguide.guided.reading.cursor import Cursor, Part, Steps
from specguide.guided.reading.json_reader import JsonReader
from specguide.guided.reading.spelled import mark_bytes, without_specials
from specguide.guided.tools.formats import around_id
from specguide.guided.tools.layout import CallLayout

CONTENT = Part("content", "text")
CONTENT_MARK = Part("content", "punctuation")
CONTENT_JSON = Part("content", "punctuation", "")


class CallReader:
    """Reads a message that a guide of `tool_guide` lets through."""

    def __init__(self, cursor: Cursor, layout: CallLayout) -> None:
        one = layout.tool_format
        self._cursor, self._layout = cursor, layout
        self._opening = self._mark(one.opening)
        self._before_arguments = self._behind_id(one.before_arguments)
        self._behind_name = [self._mark(text) for text in one.behind_name]
        self._after_arguments = self._behind_id(one.after_arguments)
        self._listed = None if one.arguments is None else ArgumentMarks(layout)

    def read(self) -> Steps[None]:
        """Read the message to its end."""
        one = self._layout.tool_format
        if self._layout.must_call:
            yield from self._calls()
        elif one.before_answer:
            yield from self._marked()
        elif self._layout.has_answer:
            is_call = (yield from self._name_end(self._opening)) is not None
            yield from self._calls() if is_call else self._answer()
        elif (yield from self._cursor.text((self._mark(one.trigger),), CONTENT, without_specials)):
            yield from self._calls()

    def _mark(self, text: str) -> bytes:
        return mark_bytes(text, self._layout.special_ids)

    def _behind_id(self, text: str) -> bytes:
        """The mark up to which a call's id is passed over."""
        head, tail = around_id(text)
        return self._mark(tail or head)

    def _marked(self) -> Steps[None]:
        """Read a message in which marks say what is an answer and what leads to calls."""
        cursor, one = self._cursor, self._layout.tool_format
        before_answer, before_lead = self._mark(one.before_answer), self._mark(one.before_lead)
        if (yield from cursor.begins(before_lead)):
            cursor.mark(before_lead, CONTENT_MARK)
            after_lead = self._mark(one.after_lead)
            if (yield from cursor.text((after_lead,), CONTENT, without_specials)):
                cursor.mark(after_lead, CONTENT_MARK)
        if (yield from cursor.begins(self._opening)):
            yield from self._calls()
        elif (yield from cursor.begins(before_answer)):
            cursor.mark(before_answer, CONTENT_MARK)
            yield from self._answer()
        elif cursor.is_over:  # before it was certain what it is
            cursor.take(len(cursor.data), CONTENT_MARK, b"")

    def _answer(self) -> Steps[None]:
        if self._layout.has_answer:
            yield from JsonReader(self._cursor, CONTENT_JSON).read()

    def _calls(self) -> Steps[None]:
        """Read calls up to the message's end."""
        one, before = self._layout.tool_format, self._opening
        for call in count():
            if not (yield from self._call(before, call)):
                return
            if one.separator is None:
                break
            before = self._mark(one.separator + one.before_name)
            if not (yield from self._cursor.begins(before)):
                break
        end = self._mark(one.end)
        if (yield from self._cursor.begins(end)):
            self._cursor.mark(end, CONTENT_MARK)

    def _call(self, before: bytes, call: int) -> Steps[bool]:
        """Read a call behind `before` and return whether it was whole. Its name is held back until
        the name is whole."""
        cursor = self._cursor
        end = yield from self._name_end(before)
        if end is None:
            nameless = Part("tool", "punctuation", None, None, call)
            yield from cursor.rest(nameless, nothing)
            return False
        name = cursor.data[cursor.at + len(before) : end].decode()
        around = Part("tool", "punctuation", None, name, call)
        cursor.mark(before, around)
        cursor.take(end, around._replace(role="name"), b"")
        if not (yield from cursor.text((self._before_arguments,), around, nothing)):
            return False
        cursor.mark(self._before_arguments, around)
        return (yield from self._arguments(around, name))

    def _arguments(self, around: Part, name: str) -> Steps[bool]:
        """Read arguments and the mark behind them, and return whether all of that was whole."""
        cursor, after = self._cursor, self._after_arguments
        if self._listed is not None:
            texts = self._layout.texts[name]
            return (yield from ListedReader(cursor, self._listed, around, after, texts).read())
        yield from JsonReader(cursor, around).read()
        if not (yield from cursor.text((after,), around, nothing)):
            return False
        cursor.mark(after, around)
        return True

    def _name_end(self, before: bytes) -> Steps[int | None]:
        """The place where the next call's name ends; None where no call comes next. Takes
        nothing."""
        cursor, names = self._cursor, self._layout.names
        if not (yield from cursor.begins(before)):
            return None
        while True:
            begin = cursor.at + len(before)
            ends = [cursor.data.find(mark, begin) for mark in self._behind_name]
            end = min((one for one in ends if one >= 0), default=-1)
            if end >= 0:
                return end if cursor.data[begin:end] in names else None
            most = self._layout.longest_name + max(map(len, self._behind_name))
            if cursor.is_over or len(cursor.data) - begin > most:
                return None
            yield
