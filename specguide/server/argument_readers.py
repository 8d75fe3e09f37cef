"""Owns reading the arguments of a call while they are written, as a JSON object or one by one, and
telling them as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Protocol

from specguide.guided.tools import ArgumentsForm
from specguide.server.reasoning_reader import overlap


class ArgumentsReader(Protocol):
    """Of one call."""

    def read(self, text: str) -> tuple[str, str, bool]:
        """text: what was not read yet, with a further piece. Returns what is certain of the
        arguments as JSON, what is still to be read, and whether they are over."""
        ...


class JsonReader:
    """Of a JSON object."""

    def __init__(self) -> None:
        self._depth, self._in_string, self._is_escaped = 0, False, False

    @property
    def is_between(self) -> bool:
        """Whether no string, array or object is open."""
        return self._depth == 0 and not self._in_string

    def take(self, char: str) -> None:
        """The next character."""
        if self._in_string:
            self._in_string = self._is_escaped or char != '"'
            self._is_escaped = char == "\\" and not self._is_escaped
        elif char == '"':
            self._in_string = True
        elif char in "{[":
            self._depth += 1
        elif char in "}]":
            self._depth -= 1

    def read(self, text: str) -> tuple[str, str, bool]:
        """See ArgumentsReader."""
        for index, char in enumerate(text):
            self.take(char)
            if self._depth == 0 and char in "}]" and not self._in_string:
                return text[: index + 1], text[index + 1 :], True
        return text, "", False


class ListedReader:
    """Of arguments one by one.

    after: what is behind them
    texts: names of those that are written as they are
    """

    def __init__(self, form: ArgumentsForm, after: str, texts: frozenset[str]) -> None:
        self._form, self._after, self._texts = form, after, texts
        self._read: Callable[[], str] = self._read_next
        self._rest = ""
        self._num_read = self._num_scanned = 0
        self._json = JsonReader()
        self._is_over = False
        self._words = {word: name for name, word in form.constants.items()}

    def read(self, text: str) -> tuple[str, str, bool]:
        """See ArgumentsReader."""
        self._rest, told, before = text, "", None
        while not self._is_over and before != (self._read, self._rest):
            before = (self._read, self._rest)
            told += self._read()
        return told, self._rest, self._is_over

    def _read_next(self) -> str:
        """Another name, or the end."""
        if self._rest.startswith(self._after):
            self._is_over = True
            return "}" if self._num_read else "{}"
        before = (self._form.separator if self._num_read else "") + self._form.before_name
        waits = self._after.startswith(self._rest) or not self._rest.startswith(before)
        name, found, rest = self._rest.removeprefix(before).partition(self._form.before_value)
        if waits or not found:
            return ""
        self._rest = rest
        self._num_read += 1
        is_text = name in self._texts and self._form.text_marks is not None
        self._read = self._begin_text if is_text else self._read_json
        self._json, self._num_scanned = JsonReader(), 0
        return ("{" if self._num_read == 1 else ", ") + json.dumps(name, ensure_ascii=False) + ": "

    def _begin_text(self) -> str:
        mark = self._form.text_marks[0] if self._form.text_marks else ""
        if not self._rest.startswith(mark):
            return ""
        self._rest, self._read = self._rest.removeprefix(mark), self._read_text
        return '"'

    def _read_text(self) -> str:
        text, found, rest = self._rest.partition(self._form.after_text)
        if found:
            self._rest, self._read = rest, self._read_next
            return _inside(text) + '"'
        kept = overlap(text, self._form.after_text)
        self._rest = text[len(text) - kept :]
        return _inside(text[: len(text) - kept])

    def _read_json(self) -> str:
        """A value, told when it is whole."""
        form, text = self._form, self._rest
        ends = (form.after_value,) if form.after_value else (form.separator, self._after)
        while self._num_scanned < len(text):
            rest = text[self._num_scanned :]
            if self._num_scanned and self._json.is_between:
                if rest.startswith(ends):
                    value = text[: self._num_scanned]
                    self._rest, self._read = rest.removeprefix(form.after_value), self._read_next
                    return self._words.get(value, value)
                if any(end.startswith(rest) for end in ends):
                    return ""
            self._json.take(text[self._num_scanned])
            self._num_scanned += 1
        return ""


def _inside(text: str) -> str:
    """A part of a text as a part of a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]
