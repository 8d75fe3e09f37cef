"""Owns telling reasoning from the answer behind it, while a text is written."""

from __future__ import annotations

from dataclasses import dataclass

from specguide.server.task import ExpectedReasoning


@dataclass(frozen=True)
class Split:
    """A piece of text in its two parts."""

    reasoning: str = ""
    answer: str = ""


class ReasoningReader:
    """Takes a text in pieces of any size. Marks that are special tokens must be in it by their
    names.

    is_over: all further text is the answer
    """

    def __init__(self, expected: ExpectedReasoning) -> None:
        self._begin_mark = expected.format.begin
        self._end = expected.end
        self._answer = expected.answer
        self._is_begun, self.is_over = expected.is_begun, False
        self._is_trimming = expected.is_begun
        self._unread = ""

    def feed(self, text: str) -> Split:
        """What is certain once this piece is there."""
        if self.is_over:
            return Split(answer=self._trimmed(text))
        self._unread += text
        if not self._is_begun and not self._begin():
            return Split(answer=self._take_all()) if self.is_over else Split()
        reasoning, end, rest = self._unread.partition(self._end)
        if not end:
            kept = overlap(reasoning, self._end)
            certain = self._trimmed(reasoning[: len(reasoning) - kept])
            self._unread = reasoning[len(reasoning) - kept :]
            return Split(certain)
        reasoning = self._trimmed(reasoning)
        self._unread, self.is_over, self._is_trimming = "", True, True
        return Split(reasoning, self._trimmed(rest))

    def finish(self) -> Split:
        """The text is over: what was held back."""
        rest = self._take_all()
        return Split(rest) if self._is_begun and not self.is_over else Split(answer=rest)

    def _begin(self) -> bool:
        """Whether the section has begun; where that is no more possible, it is over."""
        found = self._unread.lstrip()
        if found.startswith(self._begin_mark):
            self._unread = found.removeprefix(self._begin_mark)
            self._is_begun = self._is_trimming = True
        elif self._answer and found.startswith(self._answer):
            self._unread, self.is_over = found.removeprefix(self._answer), True
        elif not self._begin_mark.startswith(found) and not self._answer.startswith(found):
            self.is_over = True
        return self._is_begun

    def _trimmed(self, text: str) -> str:
        """Without the line breaks that stand behind a mark."""
        if self._is_trimming:
            text = text.lstrip("\n")
            self._is_trimming = not text
        return text

    def _take_all(self) -> str:
        text, self._unread = self._unread, ""
        return text


def overlap(text: str, mark: str) -> int:
    """Length of the longest end of `text` with which `mark` begins, and which is not all of it."""
    lengths = range(min(len(text), len(mark) - 1), 0, -1)
    return next((length for length in lengths if mark.startswith(text[-length:])), 0)
