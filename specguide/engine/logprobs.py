"""Owns the log-probabilities of requests: it turns the scores of iterations into the entries that
callers read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specguide.batch import TokenScores
from specguide.engine.observers import Committed
from specguide.request_records import Logprob

_Place = tuple[float, int, Sequence[int], Sequence[float]]
"""The scores of one token: its log-probability and rank, then the ids of the likeliest tokens and
their log-probabilities."""


class Logprobs:
    """An observer that gives requests the log-probabilities of their new tokens and of their
    prompts, where they ask for these."""

    def take(self, committed: Committed) -> None:
        """Take the scores of one more iteration."""
        output = committed.output
        if output.prompt_scores is not None:
            _take_prompt_logprobs(committed, output.prompt_scores)
        if output.scores is None:
            return
        places = list(_places(output.scores))
        for row, request, advance in committed.rows():
            num_top = request.params.logprobs
            if num_top is not None:
                request.logprobs += [
                    _entry(token, place, num_top)
                    for token, place in zip(advance.tokens, places[row], strict=False)
                ]


def _take_prompt_logprobs(committed: Committed, scores: TokenScores) -> None:
    """Append new scores of prompts. Scores that a request got before it lost its pages stay."""
    scored = _places(scores)
    for request, chunk in zip(committed.requests, committed.batch.chunks, strict=True):
        for position, token in enumerate(chunk.scored_ids, start=chunk.start + 1):
            (place,) = next(scored)
            if position == len(request.prompt_logprobs):
                request.prompt_logprobs.append(
                    _entry(token, place, request.params.prompt_logprobs or 0)
                )


def _places(scores: TokenScores) -> Iterator[list[_Place]]:
    """The scores of the tokens of each row."""
    for row in zip(*(tensor.tolist() for tensor in scores.tensors()), strict=True):
        yield list(zip(*row, strict=True))


def _entry(token: int, place: _Place, num_top: int) -> dict[int, Logprob]:
    """The entries of the token itself and of the likeliest tokens."""
    logprob, own_rank, top_ids, top_logprobs = place
    top = zip(top_ids, top_logprobs, strict=True)
    entry = {
        one: Logprob(value, rank)
        for rank, (one, value) in enumerate(top, start=1)
        if rank <= num_top
    }
    entry[token] = Logprob(logprob, own_rank)
    return entry
