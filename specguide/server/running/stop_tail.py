"""Owns the cut of an output at the stop string that ended it, where the server itself decodes the
tokens, including marks of calls and reasoning."""

from __future__ import annotations

from collections.abc import Mapping

from specguide.guided.reading.spelled import reach, shown_bytes
from specguide.params import SamplingParams


class StopTail:
    """Holds back text that may be the beginning of a stop string, until more has come.

    The engine decides where the output ends: a stop string may also be part of a guided text.

    names: what special tokens add to the text
    """

    def __init__(self, params: SamplingParams, names: Mapping[int, bytes] | None = None) -> None:
        self._names = names or {}
        self._stops = tuple(stop.encode() for stop in params.stop or ())
        self._is_included = params.include_stop_str_in_output
        self._held = b""
        self._num_certain, self._num_last = 0, 0

    def feed(self, *tokens: bytes, is_last: bool = False) -> bytes:
        """The text that is certain with these tokens, as SpelledTokens spells them. is_last: a stop
        string has ended the output with these tokens; `finish` then returns all of their text"""
        text = self._held + b"".join(tokens)
        if not self._stops:
            return text
        if tokens:
            self._num_last = len(self._shown(tokens[-1]))
        shown = self._shown(text)
        num_held = max(_overlap(shown, stop) for stop in self._stops)
        num_now, num_shown = self._reach(text, 0 if is_last else len(shown) - num_held)
        self._num_certain += num_shown
        self._held = text[num_now:]
        return text[:num_now]

    def finish(self, stop: str | int | None, num_bytes: int = 0) -> bytes:
        """The rest of the text. stop: the stop string or token id that ended the output; None where
        none did

        num_bytes: length of the whole output in the engine. Where the last token completes the stop
                   string more than once, it tells which one ended the output, unless the engine
                   leaves special tokens out of the text: then it was the first
        """
        text, self._held = self._held, b""
        if not isinstance(stop, str):
            return text
        spelled, shown = stop.encode(), self._shown(text)
        first = max(0, len(shown) - self._num_last - len(spelled) + 1)
        behind = len(spelled) * self._is_included
        ends = [at + behind for at in range(first, len(shown)) if shown.startswith(spelled, at)]
        if not ends:
            return text
        end = next((end for end in ends if self._num_certain + end == num_bytes), ends[0])
        num_taken, num_shown = self._reach(text, end)
        return text[:num_taken] + shown[num_shown:end]

    def _shown(self, text: bytes) -> bytes:
        """The text as stop strings see it."""
        return shown_bytes(text, self._names) if self._names else text

    def _reach(self, text: bytes, num_shown: int) -> tuple[int, int]:
        """How much of the text has the first bytes that stop strings see, see `reach`."""
        return reach(text, self._names, num_shown) if self._names else (num_shown, num_shown)


def _overlap(text: bytes, stop: bytes) -> int:
    """Length of the longest end of a text with which the stop string begins."""
    lengths = range(min(len(text), len(stop)), 0, -1)
    return next((length for length in lengths if stop.startswith(text[-length:])), 0)
