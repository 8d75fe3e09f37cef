"""Owns the text of one request's output: which part is certain, which part may still become a stop
string, and where it ends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from specguide.params import SamplingParams
from specguide.tokenizer import IncrementalDetokenizer, Tokenizer

UNKNOWN_BYTES = 1 << 48
_REPLACED = "\ufffd"
"""The character that replaces bytes that are not UTF-8. It does not tell which bytes these were."""


class OutputText:
    """The text of a request's output, built from its tokens.

    stop:         strings that end the text. It is read character by character: the first string to
                  be complete ends it, or the longest of several. How the text is cut into tokens
                  makes no difference
    include_stop: the text ends behind the stop string, not before it
    may_end:      whether the text may end after this many bytes; where it may not, a stop string is
                  ordinary text. The number is UNKNOWN_BYTES or more after a replacement character
    hidden_ends:  tokens that end the output and are not part of its text
    """

    def __init__(
        self,
        detokenizer: IncrementalDetokenizer,
        stop: Sequence[str] = (),
        include_stop: bool = False,
        may_end: Callable[[int], bool] = lambda _: True,
        hidden_ends: Collection[int] = (),
    ) -> None:
        self._detokenizer: IncrementalDetokenizer | None = detokenizer
        self._matchers = [_StopMatcher(text) for text in stop]
        self._include_stop, self._may_end = include_stop, may_end
        self._hidden_ends = hidden_ends
        self._parts: list[str] = []
        self._num_taken = 0
        self._num_counted, self._num_bytes = 0, 0  # parts whose bytes were counted
        self._held = ""  # may be the beginning of a stop string

    @staticmethod
    def of(tokenizer: Tokenizer, prompt_ids: Sequence[int], params: SamplingParams) -> OutputText:
        """The text of a request's output behind its prompt. It may end anywhere, whatever the guide
        says."""
        return OutputText(
            tokenizer.detokenizer(
                prompt_ids,
                is_guided=params.guide is not None,
                skip_special_tokens=params.skip_special_tokens,
            ),
            params.stop or (),
            params.include_stop_str_in_output,
            hidden_ends=hidden_ends(tokenizer.eos_token_ids, params),
        )

    @property
    def text(self) -> str:
        """The text that is certain; after `end` or a stop string, the whole text."""
        return "".join(self._parts)

    def take(self) -> str:
        """The text that has become certain since the last call."""
        new = "".join(self._parts[self._num_taken :])
        self._num_taken = len(self._parts)
        return new

    def add(self, token: int, may_stop: bool = True) -> str | int | None:
        """Add the next token. Returns the stop string that it completes; the text then ends.

        may_stop: False: a stop string that is completed now is ordinary text
        """
        if self._detokenizer is None or token in self._hidden_ends:
            return None
        return self._feed(self._detokenizer.add(token), may_stop)

    def end(self) -> str | None:
        """End the text: no more tokens come. Returns the stop string that the last characters
        complete. Further calls do nothing."""
        if self._detokenizer is None:
            return None
        stop = self._feed(self._detokenizer.flush(), may_stop=True)
        if stop is None:
            self._close(self._held)
        return stop

    def _feed(self, new: str, may_stop: bool) -> str | None:
        if not self._matchers:
            if new:
                self._parts.append(new)
            return None
        for at, char in enumerate(new):
            complete = [matcher.text for matcher in self._matchers if matcher.feed(char)]
            for stop in sorted(complete, key=len, reverse=True) if may_stop else ():
                read = self._held + new[: at + 1]
                kept = read if self._include_stop else read[: -len(stop)]
                if self._may_end(self._count_bytes() + _num_bytes(kept)):
                    self._close(kept)
                    return stop
        self._hold(self._held + new)
        return None

    def _count_bytes(self) -> int:
        """Number of bytes of the text that is certain."""
        self._num_bytes += sum(map(_num_bytes, self._parts[self._num_counted :]))
        self._num_counted = len(self._parts)
        return self._num_bytes

    def _hold(self, text: str) -> None:
        """Hold back the end of the text that may begin a stop string."""
        num_certain = len(text) - max(matcher.num_matched for matcher in self._matchers)
        if num_certain:
            self._parts.append(text[:num_certain])
        self._held = text[num_certain:]

    def _close(self, last: str) -> None:
        if last:
            self._parts.append(last)
        self._detokenizer, self._held = None, ""


def _num_bytes(text: str) -> int:
    return UNKNOWN_BYTES if _REPLACED in text else len(text.encode())


def hidden_ends(eos_token_ids: Collection[int], params: SamplingParams) -> frozenset[int]:
    """The tokens that end a request's output and add nothing to its text.

    eos_token_ids: the model's own end tokens
    """
    is_named = params.include_stop_str_in_output and not params.skip_special_tokens
    own = () if params.ignore_eos or is_named else eos_token_ids
    is_text = params.guide is not None or params.include_stop_str_in_output
    return frozenset((*own, *(() if is_text else params.stop_token_ids)))


class _StopMatcher:
    """Finds one string, character by character (Knuth, Morris and Pratt).

    num_matched: how many of the last characters read match the beginning of the string
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.num_matched = 0
        # For the first i + 1 characters: length of the longest proper suffix that is also a prefix
        self._borders = [0] * len(text)
        for i in range(1, len(text)):
            self._borders[i] = self._next(self._borders[i - 1], text[i])

    def feed(self, char: str) -> bool:
        """Read a character; True where it completes the string."""
        self.num_matched = self._next(self.num_matched, char)
        return self.num_matched == len(self.text)

    def _next(self, num_matched: int, char: str) -> int:
        while num_matched and self.text[num_matched : num_matched + 1] != char:
            num_matched = self._borders[num_matched - 1]
        return num_matched + (self.text[num_matched] == char)
