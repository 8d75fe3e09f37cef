"""Owns the reading of call arguments that are written one by one, which are shown as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from specguide.guided.reading.cursor import Cursor, Part, Steps
from specguide.guided.reading.escapes import escaped
from specguide.guided.reading.json_reader import JsonReader, pointer_step
from specguide.guided.reading.spelled import mark_bytes
from specguide.guided.tools.argument_schemas import listed_of
from specguide.guided.tools.layout import CallLayout
from specguide.guided.tools.shapes import (
    ArrayShape,
    ChoiceShape,
    JsonShape,
    ObjectShape,
    Shape,
    TextShape,
)
from specguide.guided.tools.words import JSON_OPENERS, MOST_OF_NUMERAL, Words, is_numeral

_JSON = JsonShape(True, True)


class ArgumentMarks:
    """The marks of a format around arguments, as bytes."""

    def __init__(self, layout: CallLayout) -> None:
        form, ids = layout.tool_format.arguments, layout.special_ids
        assert form is not None
        self._ids, self._form = ids, form
        self.has_literals = form.has_literals
        self.before_name = mark_bytes(form.before_name, ids)
        self.before_value = mark_bytes(form.before_value, ids)
        self.separator = mark_bytes(form.separator, ids)
        self.if_none = mark_bytes(form.if_none, ids)
        self.text, self.other_text = self._pair(form.text_marks), self._pair(form.other_text_marks)
        self.object = self._pair(form.object_marks)
        self.array = self._pair(form.array_marks)
        self.item = self._pair(form.item_marks)
        self.words = {word.encode(): name.encode() for name, word in form.constants.items()}

    def _pair(self, texts: Sequence[str] | None) -> tuple[bytes, bytes]:
        begin, end = texts or ("", "")
        return mark_bytes(begin, self._ids), mark_bytes(end, self._ids)

    def after_value(self, name: str) -> bytes:
        """The mark behind an argument's value."""
        return mark_bytes(self._form.after_value_of(name), self._ids)

    def before(self, shape: Shape) -> list[bytes]:
        """The marks one of which is in front of a value of this shape."""
        match shape:
            case TextShape():
                return [*filter(None, [self.other_text[0]]), self.text[0]]
            case ObjectShape():
                return [self.object[0]]
            case ArrayShape():
                return [self.array[0]]
            case JsonShape():
                texts = self._form.before_json_of(shape.kind)
                return [mark_bytes(text, self._ids) for text in texts]
        return []


class ListedReader:
    """Reads arguments one by one, and the mark behind them.

    place: tag, tool and call of its parts
    """

    def __init__(self, cursor: Cursor, marks: ArgumentMarks, place: Part) -> None:
        self._cursor, self._marks, self._place = cursor, marks, place
        self._owed = b""  # JSON that the next mark shows first

    def read(self, shape: ObjectShape, after: bytes) -> Steps[bool]:
        """Read all arguments. Returns whether they were whole. after: the mark behind them"""
        self._owed = b"{"
        is_whole = yield from self._members(shape, "", self._marks.if_none + after, after)
        if not is_whole:
            yield from self._cursor.rest(self._around(""), nothing)  # of an output cut off
        return is_whole

    def _around(self, path: str) -> Part:
        return self._place._replace(role="punctuation", path=path)

    def _mark(self, mark: bytes, path: str, shown: bytes = b"") -> None:
        """Take a mark. If it is empty, the next mark shows its JSON."""
        shown = self._owed + shown
        self._cursor.mark(mark, self._around(path), shown)
        self._owed = b"" if mark else shown

    def _members(self, shape: ObjectShape, path: str, none: bytes, after: bytes) -> Steps[bool]:
        """Read values with names and the mark behind them. Returns whether they were whole.

        none: the mark behind them where there are no values
        """
        cursor, num_read = self._cursor, 0
        shapes = {member.name: member.shape for member in shape.members}
        while not (yield from cursor.begins(after if num_read else none)):
            separator = self._marks.separator if num_read else b""
            before = separator + self._marks.before_name
            if not (yield from self._member(before, path, shapes, b", " if num_read else b"")):
                return False
            num_read += 1
        self._mark(after if num_read else none, path, b"}")
        return True

    def _member(
        self, before: bytes, path: str, shapes: Mapping[str, Shape], lead: bytes
    ) -> Steps[bool]:
        """Read a value with its name. Returns whether it was whole. The name is held back until it
        is whole. lead: JSON shown in front of it"""
        cursor, marks = self._cursor, self._marks
        is_there = yield from cursor.begins(before)
        end = (yield from cursor.find(marks.before_value, len(before))) if is_there else None
        if end is None:
            return False
        name = cursor.data[cursor.at + len(before) : end].decode(errors="replace")
        inside = f"{path}/{pointer_step(name)}"
        cursor.mark(before, self._around(path))
        shown = self._owed + lead + json.dumps(name, ensure_ascii=False).encode()
        cursor.take(end, self._place._replace(role="key", path=inside), shown)
        self._owed = b""
        shape, between = shapes.get(name, _JSON), (marks.before_value, b": ")
        return (yield from self._value(shape, between, inside, path, marks.after_value(name)))

    def _value(
        self, shape: Shape, before: tuple[bytes, bytes], path: str, outside: str, after: bytes
    ) -> Steps[bool]:
        """Read a value and the marks around it. Returns whether they were whole.

        before:  the mark in front of any value, which comes next, and the JSON that it shows
        outside: the path of the object or array around the value
        """
        marks, (outer, shown) = self._marks, before
        begin = yield from self._begin(shape, outer, after)
        is_bare = begin is not None and isinstance(begin[0], TextShape) and not begin[1]
        self._mark(outer, outside, shown + (b'"' if is_bare else b""))
        if begin is None:
            return False
        shape, mark = begin
        match shape:
            case TextShape():
                self._mark(mark, outside, b'"' if mark else b"")
                _, end = marks.other_text if mark and mark == marks.other_text[0] else marks.text
                return (yield from self._text(path, outside, end + after))
            case ObjectShape():
                self._mark(mark, path, b"{")
                end = marks.object[1] + after
                return (yield from self._members(shape, path, end, end))
            case ArrayShape():
                self._mark(mark, path, b"[")
                return (yield from self._items(shape.item, path, marks.array[1] + after))
        self._mark(mark, outside)
        return (yield from self._json(path, outside, after))

    def _begin(
        self, shape: Shape, before: bytes, after: bytes
    ) -> Steps[tuple[Shape, bytes] | None]:
        """Which of a choice of shapes comes next, and the mark that only this shape has in front;
        None where none comes. Takes nothing. before, after: the marks around any value"""
        options = shape.options if isinstance(shape, ChoiceShape) else [shape]
        if self._marks.has_literals:  # literals are read without shapes
            options = [one if isinstance(one, TextShape) else _JSON for one in options]
        marks = [(option, mark) for option in options for mark in self._marks.before(option)]
        for option, mark in sorted(marks, key=lambda one: not one[1]):  # those without a mark last
            if not (yield from self._cursor.begins(before + mark)):
                continue
            if isinstance(option, TextShape) and not mark:
                if option.beside and (yield from self._is_beside(option.beside, before, after)):
                    return _JSON, mark
                if len(options) > 1 and not (yield from self._is_text(option, before, after)):
                    continue
            return option, mark
        return None

    def _is_text(self, shape: TextShape, before: bytes, after: bytes) -> Steps[bool]:
        """Whether a text comes next, between marks, and not JSON."""
        if shape.is_apart:
            return not (yield from self._is_one_of(JSON_OPENERS, before, b""))
        return (yield from self._is_one_of(listed_of(shape.schema), before, after))

    def _is_beside(self, words: Words, before: bytes, after: bytes) -> Steps[bool]:
        """Whether one of some words comes next, between marks."""
        if (yield from self._is_one_of(words.listed, before, after)):
            return True
        if not words.numeral:
            return False
        numeral = yield from self._cursor.numeral(len(before), MOST_OF_NUMERAL)
        if not is_numeral(numeral, words.numeral):
            return False
        return (yield from self._cursor.begins(before + numeral + after))

    def _is_one_of(self, texts: Sequence[str], before: bytes, after: bytes) -> Steps[bool]:
        """Whether one of some texts comes next, between marks."""
        for text in texts:
            if (yield from self._cursor.begins(before + text.encode() + after)):
                return True
        return False

    def _text(self, path: str, outside: str, after: bytes) -> Steps[bool]:
        part = self._place._replace(role="value", path=path)
        if not (yield from self._cursor.text((after,), part, escaped)):
            return False
        self._mark(after, outside, b'"')
        return True

    def _items(self, item: Shape, path: str, after: bytes) -> Steps[bool]:
        """Read the items of an array and the mark behind them. Returns whether they were whole."""
        cursor, marks, num_read = self._cursor, self._marks, 0
        while not (yield from cursor.begins(after)):
            mark = (marks.separator if num_read else b"") + marks.item[0]
            if not (yield from cursor.begins(mark)):
                return False
            before = mark, b", " if num_read else b""
            inside = f"{path}/{num_read}"
            if not (yield from self._value(item, before, inside, path, marks.item[1])):
                return False
            num_read += 1
        self._mark(after, path, b"]")
        return True

    def _json(self, path: str, outside: str, after: bytes) -> Steps[bool]:
        cursor, part = self._cursor, self._place._replace(role="value", path=path)
        yield from JsonReader(cursor, part, path, self._marks.words).read()
        if not (yield from cursor.text((after,), self._around(outside), nothing)):
            return False
        self._mark(after, outside)
        return True


def nothing(_: bytes) -> bytes:
    """Shows nothing: for bytes that are not text."""
    return b""
