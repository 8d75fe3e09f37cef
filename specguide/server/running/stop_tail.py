"""Owns the cut of an output at the stop string that ended it, where the server itself decodes the
tokens, including marks of calls and reasoning."""

from __future__ import annotations

from specguide.params import SamplingParams


class StopTail:
    """Holds back text that may be the beginning of a stop string, until more has come.

    The engine decides where the output ends: a stop string may also be part of a guided text.
    """

    def __init__(self, params: SamplingParams) -> None:
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
            self._num_last = len(tokens[-1])
        overlaps = (_overlap(text, stop) for stop in self._stops)
        num_now = 0 if is_last else len(text) - max(overlaps, default=0)
        self._num_certain += num_now
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
        spelled = stop.encode()
        first = max(0, len(text) - self._num_last - len(spelled) + 1)
        behind = len(spelled) * self._is_included
        ends = [at + behind for at in range(first, len(text)) if text.startswith(spelled, at)]
        is_end = (end for end in ends if self._num_certain + end == num_bytes)
        return text[: next(is_end, ends[0] if ends else len(text))]


def _overlap(text: bytes, stop: bytes) -> int:
    """Length of the longest end of a text with which the stop string begins."""
    lengths = range(min(len(text), len(stop)), 0, -1)
    return next((length for length in lengths if stop.startswith(text[-length:])), 0)
