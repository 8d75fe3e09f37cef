"""Owns reading tool calls out of a message while it is written: text, which tool, its arguments
piece by piece."""

from __future__ import annotations

from collections.abc import Callable

from specguide.guided.tools import ToolFormat
from specguide.server.events import Arguments, CallBegin, Said, Text
from specguide.server.reasoning_reader import overlap


class _JsonEnd:
    """Finds the end of a JSON object or array that comes in pieces."""

    def __init__(self) -> None:
        self._depth, self._in_string, self._is_escaped = 0, False, False

    def find(self, text: str) -> int | None:
        """Characters of `text` up to the value's end; None where that is not in it."""
        for index, char in enumerate(text):
            if self._in_string:
                self._in_string = self._is_escaped or char != '"'
                self._is_escaped = char == "\\" and not self._is_escaped
            elif char == '"':
                self._in_string = True
            elif char in "{[":
                self._depth += 1
            elif char in "}]":
                self._depth -= 1
                if self._depth == 0:
                    return index + 1
        return None


class ToolCallParser:
    """Takes a message that a guide of `tool_guide.tool_guide` let through, in pieces of any size.

    Special tokens must be in the text by their names.
    """

    def __init__(self, tool_format: ToolFormat) -> None:
        self._format = tool_format
        self._unread, self.num_calls = "", 0
        self._read: Callable[[], list[Said]] = (
            self._read_mark if tool_format.before_answer else self._read_text
        )
        self._json_end = _JsonEnd()

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
        self._unread, self._read, self._json_end = rest, self._read_arguments, _JsonEnd()
        self.num_calls += 1
        return [CallBegin(self.num_calls - 1, name)]

    def _read_arguments(self) -> list[Said]:
        end = self._json_end.find(self._unread)
        if end is not None:
            self._read = self._read_end
        text, self._unread = self._unread[:end], "" if end is None else self._unread[end:]
        return [Arguments(self.num_calls - 1, text)] if text else []

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
