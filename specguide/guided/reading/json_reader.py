"""Owns the reading of JSON while it is written: the role of each byte, and the path of the value
that it belongs to."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from specguide.guided.reading.cursor import Cursor, Part, Steps
from specguide.guided.reading.escapes import as_json
from specguide.guided.schema.pointers import escaped
from specguide.request_records import SpanRole

_SPACES = b" \t\r\n"
_STRUCTURE = b"{}[],:" + _SPACES
_QUOTES = b"\"'"
_OBJECT, _ARRAY, _COMMA = b"{[,"


@dataclass
class _Container:
    """An open object or array. num_values: number of its values that are over"""

    path: str
    is_object: bool
    num_values: int = 0


class JsonReader:
    """Reads one JSON value. Its grammar ensures that it is JSON; other bytes are read somehow. It
    is shown as it is.

    place: tag, tool and call of its parts
    path:  the value's path
    words: other words for true, false and null, each with JSON's word; where there are any, the
           value may also be a Python literal, and is shown as JSON
    """

    def __init__(
        self,
        cursor: Cursor,
        place: Part,
        path: str = "",
        words: Mapping[bytes, bytes] | None = None,
    ) -> None:
        self._cursor, self._place = cursor, place
        self._path, self._words = path, words
        self._quotes = _QUOTES if words else _QUOTES[:1]
        self._show = as_json if words else None
        self._is_key = False  # whether a string that comes next is a key
        self._open: list[_Container] = []

    def read(self) -> Steps[None]:
        """Read the value, and spaces before it."""
        cursor = self._cursor
        while (yield from cursor.more()):
            byte = cursor.data[cursor.at]
            if byte in _STRUCTURE:
                self._structure(byte)
            elif self._is_key and byte in self._quotes:
                yield from self._key()
            elif byte in self._quotes:
                yield from cursor.string(self._part("value", self._path), self._show)
            else:
                yield from self._word()
            if not self._open and byte not in _SPACES:
                return

    def _part(self, role: SpanRole, path: str) -> Part:
        return Part(self._place.tag, role, path, self._place.tool, self._place.call)

    def _word(self) -> Steps[None]:
        """Read a word or a number. Where it may be shown as another word, it is held back until it
        is whole."""
        cursor, part = self._cursor, self._part("value", self._path)
        end = (yield from cursor.word_end()) if self._words else cursor.at
        if self._words and end > cursor.at:
            word = cursor.data[cursor.at : end]
            cursor.take(end, part, self._words.get(word, word))
        else:
            yield from cursor.word(part)

    def _structure(self, byte: int) -> None:
        """Take a space, or a bracket, comma or colon."""
        if byte in b"{[":
            self._open.append(_Container(self._path, byte == _OBJECT))
        path = self._open[-1].path if self._open else self._path
        self._cursor.take(self._cursor.at + 1, self._part("punctuation", path))
        if byte in b"{[," and self._open:
            self._next(self._open[-1], is_first=byte != _COMMA)
        elif byte in b"}]" and self._open:
            self._open.pop()
            self._is_key = False

    def _next(self, container: _Container, *, is_first: bool) -> None:
        """Note that a key or an item comes next."""
        container.num_values += not is_first
        self._is_key = container.is_object
        if not container.is_object:
            self._path = f"{container.path}/{container.num_values}"

    def _key(self) -> Steps[None]:
        """Read a key. It is held back until it is whole, since its own path contains it."""
        cursor = self._cursor
        container = self._open[-1]
        end = yield from cursor.closed_string()
        if end is None:
            yield from cursor.string(self._part("key", container.path), self._show)
            return
        key = cursor.data[cursor.at : end]
        shown = key if self._show is None else b'"' + self._show(key[1:-1]) + b'"'
        name = _name(shown.decode(errors="replace"))
        self._path = f"{container.path}/{pointer_step(name)}"
        self._is_key = False
        cursor.take(end, self._part("key", self._path), shown)


def _name(key: str) -> str:
    """The name that a key spells; where it is not a JSON string, the text between its quotes."""
    try:
        name: str = json.loads(key, strict=False)
    except ValueError:
        return key[1:-1]
    return name


def pointer_step(name: str) -> str:
    """A property's name in a JSON pointer. Surrogate halves, which JSON can spell, become "?"."""
    return escaped(name.encode(errors="replace").decode())
