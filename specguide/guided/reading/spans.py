"""Owns the spans of an output: which tokens lie in which of its parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from specguide.guided.reading.cursor import Part, Piece
from specguide.guided.reading.form import OutputForm
from specguide.guided.reading.reader import OutputReader
from specguide.guided.reading.spelled import SpelledTokens
from specguide.params import SamplingParams
from specguide.request_records import OutputSpan
from specguide.tokenizer.vocabulary import Vocabulary


class TokenSpans:
    """Finds the tokens of each part, from the tokens and the pieces made of their bytes. Time is
    linear in both."""

    def __init__(self) -> None:
        self._ends: list[int] = []  # of each token, in bytes of the output
        self._logprobs: list[float] = []
        self._part: Part | None = None
        self._begin = self._num_read = 0  # of the open part, in bytes
        self._first = 0  # the first token that reaches into it

    def add(self, spelled: Iterable[bytes], logprobs: Iterable[float] = ()) -> None:
        """Take the next tokens. logprobs: their log-probabilities; empty where these are not asked
        for"""
        end = self._ends[-1] if self._ends else 0
        for one in spelled:
            end += len(one)
            self._ends.append(end)
        self._logprobs += logprobs

    def take(self, pieces: Sequence[Piece]) -> list[OutputSpan]:
        """Take the next pieces. Returns the spans that end with them."""
        spans = []
        for piece in pieces:
            if piece.part != self._part:
                spans += self.finish()
                self._part, self._begin = piece.part, self._num_read
            self._num_read += len(piece.data)
        return spans

    def finish(self) -> list[OutputSpan]:
        """End the open span. Returns it, if there is one."""
        part, self._part = self._part, None
        if part is None:
            return []
        start = self._first
        while self._ends[start] <= self._begin:
            start += 1
        last = start
        while self._ends[last] < self._num_read:
            last += 1
        self._first = last
        end = last + 1
        logprob = math.fsum(self._logprobs[start:end]) if self._logprobs else None
        return [OutputSpan(*part, start, end, logprob)]


class SpanReader:
    """Finds the spans of one output from its tokens."""

    def __init__(self, form: OutputForm, spelled: SpelledTokens) -> None:
        self._reader = OutputReader(form)
        self._spelled = spelled
        self._spans = TokenSpans()

    @classmethod
    def of(
        cls, params: SamplingParams, vocabulary: Vocabulary, token_id: Callable[[str], int | None]
    ) -> SpanReader:
        """The reader for an output of a request with these parameters. token_id: gives the token of
        a text"""
        table = vocabulary.token_bytes

        def special(text: str) -> int | None:
            return vocabulary.special_id(token_id(text))

        spelled = SpelledTokens(table, vocabulary.eos_token_ids)
        return cls(OutputForm.asked(params, special), spelled)

    def add(self, token_ids: Sequence[int], logprobs: Sequence[float] = ()) -> list[OutputSpan]:
        """Take the next tokens, with their log-probabilities if these are asked for. Returns the
        spans that end with them."""
        spelled = [self._spelled[token] for token in token_ids]
        self._spans.add(spelled, logprobs)
        return self._spans.take(self._reader.feed(b"".join(spelled)))

    def finish(self) -> list[OutputSpan]:
        """End the output. Returns the spans that were left."""
        return self._spans.take(self._reader.finish()) + self._spans.finish()
