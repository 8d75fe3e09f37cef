"""Owns the reading of a message that may call tools, while it is written: text, tools,
arguments."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from specguide.guided.reading.arguments import ArgumentMarks, ListedReader, nothing
from specguide.guided.reading.cursor import Cursor, Part, Steps
from specguide.guided.reading.json_reader import JsonReader
from specguide.guided.reading.spelled import mark_bytes
from specguide.guided.tools.formats import around_id
from specguide.guided.tools.layout import CallLayout

CONTENT = Part("content", "text")
CONTENT_MARK = Part("content", "punctuation")
CONTENT_JSON = Part("content", "punctuation", "")


class CallReader:
    """Reads a message of a guide that `tool_guide` made. show: gives what is shown of its text"""

    def __init__(self, cursor: Cursor, layout: CallLayout, show: Callable[[bytes], bytes]) -> None:
        tool_format = layout.tool_format
        self._cursor, self._layout, self._show = cursor, layout, show
        self._opening = self._around_id(tool_format.opening)
        self._before_arguments = self._behind_id(tool_format.before_arguments)
        self._behind_name = [self._mark(text) for text in tool_format.behind_name]
        self._after_arguments = self._behind_id(tool_format.after_arguments)
        self._listed = None if tool_format.arguments is None else ArgumentMarks(layout)

    def read(self) -> Steps[None]:
        """Read the message to its end."""
        tool_format = self._layout.tool_format
        if tool_format.begins_inside:
            yield from self._begun()
        elif self._layout.must_call:
            yield from self._calls()
        elif tool_format.is_marked:
            yield from self._marked()
        elif self._layout.has_answer:
            is_call = (yield from self._name_end(self._opening)) is not None
            yield from self._calls() if is_call else self._answer()
        elif (
            yield from self._cursor.text((self._mark(tool_format.trigger),), CONTENT, self._show)
        ):
            yield from self._calls()

    def _mark(self, text: str) -> bytes:
        return mark_bytes(text, self._layout.special_ids)

    def _around_id(self, text: str) -> tuple[bytes, bytes]:
        """The marks in front of a call's id and behind it; the mark and b"" where it has no id."""
        head, tail = around_id(text)
        return self._mark(head), self._mark(tail)

    def _behind_id(self, text: str) -> bytes:
        """The mark up to which a call's id is skipped."""
        head, tail = self._around_id(text)
        return tail or head

    def _begun(self) -> Steps[None]:
        """Read a message that begins inside its text."""
        cursor, one = self._cursor, self._layout.tool_format
        after_lead, after_answer = self._mark(one.after_lead), self._mark(one.after_answer)
        if self._layout.has_answer and not (yield from cursor.begins(after_lead)):
            yield from self._answer()
            return
        if not (yield from cursor.text((after_lead,), CONTENT, self._show)):
            return
        if (yield from cursor.begins(after_answer)):
            cursor.mark(after_answer, CONTENT_MARK)
        else:
            cursor.mark(after_lead, CONTENT_MARK)
            yield from self._calls()

    def _marked(self) -> Steps[None]:
        """Read a message in which marks tell answers from text in front of calls."""
        cursor, one = self._cursor, self._layout.tool_format
        before_answer, before_lead = self._mark(one.before_answer), self._mark(one.before_lead)
        has_lead = one.has_lead and not self._layout.has_answer
        if has_lead and (yield from cursor.begins(before_lead)):
            cursor.mark(before_lead, CONTENT_MARK)
            after_lead = self._mark(one.after_lead)
            if (yield from cursor.text((after_lead,), CONTENT, self._show)):
                cursor.mark(after_lead, CONTENT_MARK)
        if (yield from cursor.begins(before_answer)):
            cursor.mark(before_answer, CONTENT_MARK)
            yield from self._answer()
        elif (yield from cursor.begins(self._opening[0])):
            yield from self._calls()
        elif cursor.is_over:  # ended before it was clear what it is
            cursor.take(len(cursor.data), CONTENT_MARK, b"")

    def _answer(self) -> Steps[None]:
        """Read an answer and the mark behind it."""
        after, has_json = self._mark(self._layout.tool_format.after_answer), self._layout.has_answer
        if has_json:
            yield from JsonReader(self._cursor, CONTENT_JSON).read()
        if not after:
            return
        show = nothing if has_json else self._show
        if (yield from self._cursor.text((after,), CONTENT, show)):
            self._cursor.mark(after, CONTENT_MARK)

    def _calls(self) -> Steps[None]:
        """Read calls up to the message's end."""
        one, before = self._layout.tool_format, self._opening
        for call in count():
            if not (yield from self._call(before, call)):
                return
            if one.separator is None:
                break
            before = self._around_id(one.separator + one.before_name)
            if not (yield from self._cursor.begins(before[0])):
                break
        end = self._mark(one.end)
        if (yield from self._cursor.begins(end)):
            self._cursor.mark(end, CONTENT_MARK)

    def _call(self, before: tuple[bytes, bytes], call: int) -> Steps[bool]:
        """Read a call behind the marks around its id. Returns whether it was whole. Its name is
        held back until it is whole."""
        cursor = self._cursor
        found = yield from self._name_end(before)
        if found is None:
            nameless = Part("tool", "punctuation", None, None, call)
            yield from cursor.rest(nameless, nothing)
            return False
        begin, end = found
        name = cursor.data[begin:end].decode()
        around = Part("tool", "punctuation", None, name, call)
        cursor.take(begin, around, b"")
        cursor.take(end, around._replace(role="name"), b"")
        if not (yield from cursor.text((self._before_arguments,), around, nothing)):
            return False
        cursor.mark(self._before_arguments, around)
        return (yield from self._arguments(around, name))

    def _arguments(self, around: Part, name: str) -> Steps[bool]:
        """Read arguments and the mark behind them. Returns whether all of that was whole."""
        cursor, after = self._cursor, self._after_arguments
        if self._listed is not None:
            shape = self._layout.arguments[name]
            return (yield from ListedReader(cursor, self._listed, around).read(shape, after))
        yield from JsonReader(cursor, around).read()
        if not (yield from cursor.text((after,), around, nothing)):
            return False
        cursor.mark(after, around)
        return True

    def _name_end(self, before: tuple[bytes, bytes]) -> Steps[tuple[int, int] | None]:
        """Begin and end of the next call's name; None where no call comes next. Takes nothing."""
        cursor, names = self._cursor, self._layout.names
        head, tail = before
        if not (yield from cursor.begins(head)):
            return None
        behind_id = (yield from cursor.find(tail, len(head))) if tail else cursor.at + len(head)
        if behind_id is None:
            return None
        offset = behind_id + len(tail) - cursor.at
        while True:
            begin = cursor.at + offset
            ends = [cursor.data.find(mark, begin) for mark in self._behind_name]
            end = min((one for one in ends if one >= 0), default=-1)
            if end >= 0:
                return (begin, end) if cursor.data[begin:end] in names else None
            most = self._layout.longest_name + max(map(len, self._behind_name))
            if cursor.is_over or len(cursor.data) - begin > most:
                return None
            yield
