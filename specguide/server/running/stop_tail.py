"""Owns cutting an output at the stop string that has ended it, where the server reads the text from
tokens itself, marks of calls and reasoning included."""

from __future__ import annotations

from specguide.params import SamplingParams


class StopTail:
    """Holds back what may be the beginning of a stop string, until more has come.

    Where the output ends is the engine's to say: a stop string may be text like any other.
    """

    def __init__(self, params: SamplingParams) -> None:
        self._stops = tuple(stop.encode() for stop in params.stop or ())
        self._is_included = params.include_stop_str_in_output
        self._held = b""

    def feed(self, text: bytes, *, is_last: bool = False) -> bytes:
        """What is certain with this piece, as SpelledTokens spells it. is_last: it is of the tokens
        with which a stop string has ended the output; `finish` tells all of it"""
        text = self._held + text
        if not self._stops:
            return text
        overlaps = (_overlap(text, stop) for stop in self._stops)
        num_certain = 0 if is_last else len(text) - max(overlaps, default=0)
        self._held = text[num_certain:]
        return text[:num_certain]

    def finish(self, stop: str | int | None) -> bytes:
        """What is left. stop: that has ended the output; None where none has"""
        text, self._held = self._held, b""
        spelled = stop.encode() if isinstance(stop, str) else b""
        at = text.rfind(spelled) if spelled else -1
        if at < 0:
            return text
        return text[: at + len(spelled)] if self._is_included else text[:at]


def _overlap(text: bytes, stop: bytes) -> int:
    """Length of the longest end of a text that is a beginning of a stop string, or all of it."""
    lengths = range(min(len(text), len(stop)), 0, -1)
    return next((length for length in lengths if stop.startswith(text[-length:])), 0)
