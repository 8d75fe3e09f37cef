"""Owns reading the arguments of a call that are written one by one, and telling them as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Container

from specguide.guided.reading.cursor import Cursor, Part, Steps
from specguide.guided.reading.json_reader import JsonReader, pointer_step
from specguide.guided.reading.spelled import mark_bytes
from specguide.guided.tools.layout import CallLayout

_ESCAPED = re.compile(rb'[\x00-\x1f"\\]')
_ESCAPES = {bytes([byte]): json.dumps(chr(byte))[1:-1].encode() for byte in (*range(0x20), *b'"\\')}


class ArgumentMarks:
    """The marks of a format around arguments, as bytes."""

    def __init__(self, layout: CallLayout) -> None:
        form, ids = layout.tool_format.arguments, layout.special_ids
        assert form is not None
        begin, _ = form.text_marks or ("", "")
        self.before_name = mark_bytes(form.before_name, ids)
        self.before_value = mark_bytes(form.before_value, ids)
        self.after_value = mark_bytes(form.after_value, ids)
        self.separator = mark_bytes(form.separator, ids)
        self.if_none = mark_bytes(form.if_none, ids)
        self.before_text = mark_bytes(begin, ids)
        self.before_json = mark_bytes(form.before_json, ids)
        self.after_text = mark_bytes(form.after_text, ids)
        self.words = {word.encode(): name.encode() for name, word in form.constants.items()}


class ListedReader:
    """Reads arguments one by one, and the mark behind them.

    place: tag, tool and call that its parts belong to
    after: the mark behind the arguments
    texts: names of the arguments that are written as they are
    """

    def __init__(
        self,
        cursor: Cursor,
        marks: ArgumentMarks,
        place: Part,
        after: bytes,
        texts: Container[str],
    ) -> None:
        self._cursor, self._marks, self._after, self._texts = cursor, marks, after, texts
        self._place = place
        self._around = place._replace(role="punctuation", path="")

    def read(self) -> Steps[bool]:
        """Read all arguments and return whether they were whole."""
        cursor = self._cursor
        num_read, after = 0, self._marks.if_none + self._after
        while not (yield from cursor.begins(after)):
            separator = self._marks.separator if num_read else b""
            if not (yield from self._argument(separator + self._marks.before_name, num_read)):
                yield from cursor.rest(self._around, nothing)  # of what was cut off
                return False
            num_read, after = num_read + 1, self._after
        cursor.mark(after, self._around, b"}" if num_read else b"{}")
        return True

    def _argument(self, before: bytes, num_read: int) -> Steps[bool]:
        """Read one argument and return whether it was whole. Its name is held back until the name
        is whole."""
        cursor, marks = self._cursor, self._marks
        is_there = yield from cursor.begins(before)
        end = (yield from cursor.find(marks.before_value, len(before))) if is_there else None
        if end is None:
            return False
        name = cursor.data[cursor.at + len(before) : end].decode(errors="replace")
        is_text = name in self._texts
        path = "/" + pointer_step(name)
        told = (b", " if num_read else b"{") + json.dumps(name, ensure_ascii=False).encode()
        cursor.mark(before, self._around)
        cursor.take(end, self._place._replace(role="key", path=path), told)
        cursor.mark(marks.before_value, self._around, b': "' if is_text else b": ")
        part = self._place._replace(role="value", path=path)
        return (yield from self._text(part) if is_text else self._json(part))

    def _text(self, part: Part) -> Steps[bool]:
        cursor, marks = self._cursor, self._marks
        if not (yield from cursor.begins(marks.before_text)):
            return False
        cursor.mark(marks.before_text, self._around)
        if not (yield from cursor.text((marks.after_text,), part, _inside)):
            return False
        cursor.mark(marks.after_text, self._around, b'"')
        return True

    def _json(self, part: Part) -> Steps[bool]:
        cursor, marks = self._cursor, self._marks
        if not (yield from cursor.begins(marks.before_json)):
            return False
        cursor.mark(marks.before_json, self._around)
        end = (yield from cursor.word_end()) if marks.words else cursor.at
        if end > cursor.at:
            word = cursor.data[cursor.at : end]
            cursor.take(end, part, marks.words.get(word, word))
        else:
            yield from JsonReader(cursor, part, part.path or "").read()
        if not (yield from cursor.text((marks.after_value,), self._around, nothing)):
            return False
        cursor.mark(marks.after_value, self._around)
        return True


def _inside(text: bytes) -> bytes:
    """A part of a text, escaped as a part of a JSON string."""
    return _ESCAPED.sub(lambda found: _ESCAPES[found[0]], text)


def nothing(_: bytes) -> bytes:
    """Nothing: what is shown of bytes that are no text."""
    return b""
