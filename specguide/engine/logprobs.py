"""Owns the log-probabilities of requests: what an iteration scored becomes what callers read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specguide.batch import TokenScores
from specguide.engine.observers import Committed
from specguide.request_records import Logprob

_Place = tuple[float, int, Sequence[int], Sequence[float]]
"""Log-probability and rank of the token there, ids of the likeliest tokens, and their
log-probabilities."""


class Logprobs:
    """Gives the requests that ask for them the log-probabilities of the tokens that they have just
    been given, and of their prompts."""

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
    """What a request has already, from before it lost its pages, stays."""
    scored = _places(scores)
    for request, chunk in zip(committed.requests, committed.batch.chunks, strict=True):
        for position, token in enumerate(chunk.scored_ids, start=chunk.start + 1):
            (place,) = next(scored)
            if position == len(request.prompt_logprobs):
                request.prompt_logprobs.append(
                    _entry(token, place, request.params.prompt_logprobs or 0)
                )


def _places(scores: TokenScores) -> Iterator[list[_Place]]:
    """The places of each row of scores."""
    for row in zip(*(tensor.tolist() for tensor in scores.tensors()), strict=True):
        yield list(zip(*row, strict=True))


def _entry(token: int, place: _Place, num_top: int) -> dict[int, Logprob]:
    """The token's own and those of the likeliest."""
    logprob, own_rank, top_ids, top_logprobs = place
    top = zip(top_ids, top_logprobs, strict=True)
    entry = {
        one: Logprob(value, rank)
        for rank, (one, value) in enumerate(top, start=1)
        if rank <= num_top
    }
    entry[token] = Logprob(logprob, own_rank)
    return entry
