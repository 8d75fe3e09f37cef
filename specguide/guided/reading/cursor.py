"""Owns an output's bytes while they are read: those not taken yet, and the pieces made of the
others."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from typing import NamedTuple, TypeVar

from specguide.guided.reading.escapes import CODE_LENGTHS, HEX
from specguide.request_records import SpanRole, SpanTag

T = TypeVar("T")
Steps = Generator[None, None, T]
"""A reader: a generator that yields where it needs more bytes."""
_PLAIN = {
    ord('"'): re.compile(rb'[^\\"]*'),
    ord("'"): re.compile(rb"[^\\']*"),
}
_WORD = re.compile(rb"[-+.0-9A-Za-z]*")
_NUMERAL = re.compile(rb"[-+.0-9Ee]*")


class Part(NamedTuple):
    """The part of an output to which a piece belongs. Its fields are those of an OutputSpan."""

    tag: SpanTag
    role: SpanRole
    path: str | None = None
    tool: str | None = None
    call: int | None = None


class Piece(NamedTuple):
    """Bytes of the output, and what a caller is shown for them: nothing for a mark, and JSON for
    arguments."""

    part: Part
    data: bytes
    shown: bytes


class Cursor:
    """The position up to which an output was read.

    data, at: its last bytes, of which those from `at` on are not taken yet
    is_over:  no more bytes come
    """

    def __init__(self) -> None:
        self.data = b""
        self.at = 0
        self.is_over = False
        self._pieces: list[Piece] = []

    def add(self, data: bytes) -> None:
        """Add more bytes. Offsets counted from `at` on stay valid."""
        self.data = self.data[self.at :] + data
        self.at = 0

    def drain(self) -> list[Piece]:
        """The pieces that were taken since the last call, in order; together they have all bytes
        taken."""
        pieces, self._pieces = self._pieces, []
        return pieces

    def take(self, end: int, part: Part, shown: bytes | None = None) -> None:
        """Make a piece of the bytes up to the position `end`. shown: None: the bytes as they are"""
        data = self.data[self.at : end]
        if data:
            self._pieces.append(Piece(part, data, data if shown is None else shown))
            self.at = end

    def mark(self, mark: bytes, part: Part, shown: bytes = b"") -> None:
        """Take a mark, which must come next."""
        self.take(self.at + len(mark), part, shown)

    def more(self) -> Steps[bool]:
        """Wait for a byte. Returns whether there is one."""
        while self.at == len(self.data) and not self.is_over:
            yield
        return self.at < len(self.data)

    def begins(self, mark: bytes) -> Steps[bool]:
        """Whether a mark comes next. Waits until that is certain, and takes nothing."""
        while not self.data.startswith(mark, self.at):
            if self.is_over or not mark.startswith(self.data[self.at :]):
                return False
            yield
        return True

    def find(self, mark: bytes, offset: int = 0) -> Steps[int | None]:
        """The position of a mark, at least `offset` bytes further on; None where it comes no more.
        Takes nothing."""
        num_seen = offset
        while (found := self.data.find(mark, self.at + num_seen)) < 0:
            if self.is_over:
                return None
            num_seen = max(offset, len(self.data) - self.at - len(mark) + 1)
            yield
        return found

    def text(
        self,
        marks: tuple[bytes, ...],
        part: Part,
        show: Callable[[bytes], bytes] | None = None,
    ) -> Steps[bool]:
        """Take all bytes in front of the first of some marks, as they come. Returns whether a mark
        has come.

        show: gives what is shown for a stretch of text; None: the stretch itself
        """
        while True:
            places = [self.data.find(mark, self.at) for mark in marks]
            place_of_mark = min((place for place in places if place >= 0), default=-1)
            num_kept = (
                0 if self.is_over else max(_overlap(self.data, self.at, one) for one in marks)
            )
            end = len(self.data) - num_kept if place_of_mark < 0 else place_of_mark
            self.take(end, part, show and show(self.data[self.at : end]))
            if place_of_mark >= 0 or self.is_over:
                return place_of_mark >= 0
            yield

    def rest(self, part: Part, show: Callable[[bytes], bytes] | None = None) -> Steps[None]:
        """Take all bytes that are still to come. show: see `text`"""
        while (yield from self.more()):
            self.take(len(self.data), part, show and show(self.data[self.at :]))

    def string(self, part: Part, show: Callable[[bytes], bytes] | None = None) -> Steps[None]:
        """Take a string between quotes, as it comes. show: see `text`; its quotes are then shown as
        JSON's"""
        quote = self.data[self.at]
        self.take(self.at + 1, part, show and b'"')
        while True:
            end, is_closed = _string_end(self.data, self.at, quote)
            end = len(self.data) if self.is_over and not is_closed else end
            inside = self.data[self.at : end - is_closed]
            self.take(end, part, show and show(inside) + b'"' * is_closed)
            if is_closed or self.is_over:
                return
            yield

    def closed_string(self) -> Steps[int | None]:
        """The end of the string between quotes that comes next; None where it does not end. Takes
        nothing."""
        offset = 1
        while True:
            end, is_closed = _string_end(self.data, self.at + offset, self.data[self.at])
            if is_closed or self.is_over:
                return end if is_closed else None
            offset = end - self.at
            yield

    def word_end(self) -> Steps[int]:
        """The end of the word or number that comes next. Takes nothing."""
        while (end := _word_end(self.data, self.at)) == len(self.data) and not self.is_over:
            yield
        return end

    def numeral(self, offset: int, most: int) -> Steps[bytes]:
        """The number characters that come `offset` bytes further on, at most `most` of them. Takes
        nothing."""
        while True:
            begin = self.at + offset
            match = _NUMERAL.match(self.data, begin, begin + most)
            end = begin if match is None else match.end()
            if end < len(self.data) or end == begin + most or self.is_over:
                return self.data[begin:end]
            yield

    def word(self, part: Part) -> Steps[None]:
        """Take a word or a number, as it comes; one byte where neither comes."""
        end = _word_end(self.data, self.at)
        if end == self.at:
            self.take(end + 1, part)
            return
        self.take(end, part)
        while self.at == len(self.data) and (yield from self.more()):
            self.take(_word_end(self.data, self.at), part)


def _word_end(data: bytes, at: int) -> int:
    match = _WORD.match(data, at)
    return at if match is None else match.end()


def _string_end(data: bytes, at: int, quote: int) -> tuple[int, bool]:
    """The position up to which a string can be read from inside it, and whether it is closed
    there."""
    while True:
        match = _PLAIN[quote].match(data, at)
        end = at if match is None else match.end()
        if end == len(data):
            return end, False
        if data[end] == quote:
            return end + 1, True
        at = _escape_end(data, end)
        if at > len(data):  # the rest of an escape is still to come
            return end, False


def _escape_end(data: bytes, at: int) -> int:
    """The end of the escape that a backslash begins; beyond the data where it is still to come."""
    end = at + 2
    most = end + CODE_LENGTHS.get(data[at + 1], 0) if end <= len(data) else end
    while end < most and end < len(data) and data[end] in HEX:
        end += 1
    return most if end == len(data) else end


def _overlap(data: bytes, at: int, mark: bytes) -> int:
    """Length of the longest suffix of the data, from `at` on, that begins the mark but is not all
    of it."""
    start = data.find(mark[:1], max(at, len(data) - len(mark) + 1))
    while start >= 0:
        if mark.startswith(data[start:]):
            return len(data) - start
        start = data.find(mark[:1], start + 1)
    return 0
