"""Owns reading tool calls out of a message while it is written: text, which tool, its arguments
piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from specguide.guided.tools import ToolFormat
from specguide.server.argument_readers import ArgumentsReader, JsonReader, ListedReader
from specguide.server.events import Arguments, CallBegin, Said, Text
from specguide.server.reasoning_reader import overlap


class ToolCallParser:
    """Takes a message that a guide of `tool_guide.tool_guide` let through, in pieces of any size.

    Special tokens must be in the text by their names.
    """

    def __init__(
        self, tool_format: ToolFormat, text_arguments: Mapping[str, frozenset[str]] | None = None
    ) -> None:
        """text_arguments: as Task has them"""
        self._texts = text_arguments or {}
        self._format = tool_format
        self._unread, self.num_calls = "", 0
        self._read: Callable[[], list[Said]] = (
            self._read_mark if tool_format.before_answer else self._read_text
        )
        self._arguments: ArgumentsReader = JsonReader()

    def feed(self, text: str) -> list[Said]:
        """What is certain once this piece is there."""
        self._unread += text
        events: list[Said] = []
        before = None
        while before != (self._read, self._unread):
            before = (self._read, self._unread)
            events += self._read()
        return events

    def finish(self) -> list[Said]:
        """The message is over: what was held back, unless it ends a call, is text."""
        rest, self._unread = self._unread, ""
        if self._read == self._read_mark:
            rest = ""
        elif self._read == self._read_name:
            rest = self._format.opening + rest
        elif self._read == self._read_end:
            last = self._last
            rest = rest[len(last) :] if rest.startswith(last) else ""
        return [Text(rest)] if rest else []

    @property
    def _last(self) -> str:
        """What follows the arguments of the last call."""
        return self._format.after_arguments + self._format.end

    def _read_mark(self) -> list[Said]:
        """What the message is, where marks say so; without any it is text."""
        marks: dict[str, Callable[[], list[Said]]] = {
            self._format.before_answer: self._read_answer,
            self._format.before_lead: self._read_lead,
            self._format.opening: self._read_name,
        }
        found = next((mark for mark in marks if self._unread.startswith(mark)), None)
        if found is not None:
            self._unread, self._read = self._unread.removeprefix(found), marks[found]
        elif not any(mark.startswith(self._unread) for mark in marks):
            self._read = self._read_answer
        return []

    def _read_answer(self) -> list[Said]:
        text, self._unread = self._unread, ""
        return [Text(text)] if text else []

    def _read_lead(self) -> list[Said]:
        end = self._format.after_lead
        text, found, rest = self._unread.partition(end)
        if found:
            self._unread, self._read = rest, self._read_mark
        else:
            kept = overlap(text, end)
            text, self._unread = text[: len(text) - kept], text[len(text) - kept :]
        return [Text(text)] if text else []

    def _read_text(self) -> list[Said]:
        opening = self._format.opening
        text, found, rest = self._unread.partition(opening)
        if found:
            self._unread, self._read = rest, self._read_name
        else:
            certain = len(text) - overlap(text, opening)
            text, self._unread = text[:certain], text[certain:]
        return [Text(text)] if text else []

    def _read_name(self) -> list[Said]:
        name, found, rest = self._unread.partition(self._format.before_arguments)
        if not found:
            return []
        if self._format.before_index:
            name = name.rpartition(self._format.before_index)[0]
        self._unread, self._read = rest, self._read_arguments
        self._arguments = self._reader(name)
        self.num_calls += 1
        return [CallBegin(self.num_calls - 1, name)]

    def _read_arguments(self) -> list[Said]:
        text, self._unread, is_over = self._arguments.read(self._unread)
        if is_over:
            self._read = self._read_end
        return [Arguments(self.num_calls - 1, text)] if text else []

    def _reader(self, name: str) -> ArgumentsReader:
        form = self._format.arguments
        if form is None:
            return JsonReader()
        texts = self._texts.get(name, frozenset())
        return ListedReader(form, self._format.after_arguments, texts)

    def _read_end(self) -> list[Said]:
        """Another call, or the last one's end, or what may become either."""
        one = self._format
        another = (
            None if one.separator is None else one.after_arguments + one.separator + one.before_name
        )
        if another is not None and self._unread.startswith(another):
            self._unread, self._read = self._unread[len(another) :], self._read_name
        elif another is not None and another.startswith(self._unread):
            pass
        elif not self._last.startswith(self._unread) or self._unread == self._last:
            self._unread, self._read = self._unread.removeprefix(self._last), self._read_text
        return []
