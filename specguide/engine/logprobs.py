"""Owns the log-probabilities of requests: what an iteration scored becomes what callers read."""

from __future__ import annotations

from specguide.batch import Batch, StepOutput
from specguide.request import Logprob


def take_logprobs(batch: Batch, output: StepOutput) -> None:
    """Give the requests that ask for them the log-probabilities of the tokens that they have just been given."""
    if output.scores is None:
        return
    scores = zip(*(tensor.tolist() for tensor in (output.scores.logprobs, output.scores.ranks, output.scores.top_ids,
                                                  output.scores.top_logprobs)), strict=True)
    for request, tokens, (logprobs, ranks, top_ids, top_logprobs) in zip(
            batch.requests, output.tokens.tolist(), scores, strict=True):
        if request.params.logprobs is None:
            continue
        for place in range(len(request.output_ids) - len(request.logprobs)):
            top = zip(top_ids[place], top_logprobs[place], strict=True)
            entry = {token: Logprob(logprob, rank) for rank, (token, logprob) in enumerate(top, start=1)
                     if rank <= request.params.logprobs}
            entry[tokens[place]] = Logprob(logprobs[place], ranks[place])
            request.logprobs.append(entry)
