"""Owns the log-probabilities of requests: what an iteration scored becomes what callers read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from specguide.batch import Batch, StepOutput, TokenScores
from specguide.request import Logprob

_Place = tuple[float, int, Sequence[int], Sequence[float]]
"""Log-probability and rank of the token there, ids of the likeliest tokens, and their
log-probabilities."""


def take_logprobs(batch: Batch, output: StepOutput) -> None:
    """Give the requests that ask for them the log-probabilities of the tokens that they have just
    been given."""
    if output.prompt_scores is not None:
        _take_prompt_logprobs(batch, output.prompt_scores)
    if output.scores is None:
        return
    for request, tokens, places in zip(
        batch.requests, output.tokens.tolist(), _places(output.scores), strict=True
    ):
        if request.params.logprobs is not None:
            for place in range(len(request.output_ids) - len(request.logprobs)):
                request.logprobs.append(
                    _entry(tokens[place], places[place], request.params.logprobs)
                )


def _take_prompt_logprobs(batch: Batch, scores: TokenScores) -> None:
    """What a request has already, from before it lost its pages, stays."""
    scored = _places(scores)
    for request, chunk in zip(batch.requests, batch.chunks, strict=True):
        for position, token in enumerate(chunk.scored_ids, start=chunk.start + 1):
            (place,) = next(scored)
            if position == len(request.prompt_logprobs):
                request.prompt_logprobs.append(
                    _entry(token, place, request.params.prompt_logprobs or 0)
                )


def _places(scores: TokenScores) -> Iterator[list[_Place]]:
    """Of each row of scores its places."""
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
