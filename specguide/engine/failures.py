"""Owns the errors that requests end with while they run: what went wrong, in words that say what to do."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from specguide.batch import Batch
from specguide.errors import MatcherError, RequestError, RequestTimeout, SpecguideError
from specguide.request import Request


def iteration_errors(batch: Batch, tokens: Sequence[Sequence[int]], failures: Mapping[tuple[int, int], RequestError],
                     latched: Mapping[int, MatcherError]) -> dict[int, SpecguideError]:
    """By slot, what ends a request of an iteration.

    tokens:   of each request; the last is -1 where none can follow
    failures: as in StepOutput
    latched:  what the grammar callbacks have found, by slot
    """
    errors: dict[int, SpecguideError] = dict(latched)
    for place, (request, slot, new) in enumerate(zip(batch.requests, batch.slots, tokens, strict=True)):
        forbidding = [*(["logits_processors"] if request.processors else []),
                      *(request.adjustment.forbidding if request.adjustment else ())]
        if (place, len(new) - 1) in failures:
            errors[slot] = failures[place, len(new) - 1]
        elif new and new[-1] < 0 and (forbidding or slot not in errors):
            names = " and ".join([*(["the grammar"] if request.grammar else []), *forbidding])
            errors[slot] = RequestError(
                f"no token can follow after {len(request.output_ids) + len(new) - 1}: "
                + (f"{names} leave none, or " if names else "") + "the model's logits are not numbers")
        elif forbidding and slot in errors:  # found before the iteration in which nothing was left
            errors[slot] = MatcherError(
                f"{errors[slot]}; what it allows, {' and '.join(forbidding)} may have forbidden")
    return errors


def certain_tokens(batch: Batch, tokens: Sequence[Sequence[int]], errors: Mapping[int, SpecguideError]
                   ) -> list[list[int]]:
    """Of the tokens of each request those to keep: up to where none can follow, and none where its grammar has failed.
    """
    return [[] if slot in errors and new and new[-1] >= 0 else [token for token in new if token >= 0]
            for slot, new in zip(batch.slots, tokens, strict=True)]


def timeout(request: Request) -> RequestTimeout:
    """Of a request whose deadline has come."""
    metrics, total_s = request.metrics, time.perf_counter() - request.arrival_s
    waited_s = metrics.queue_s or total_s
    return RequestTimeout(
        f"the request had not ended after timeout_s ({request.params.timeout_s:g} s): it waited {waited_s:.3g} s"
        + (" for its grammar or a slot" if request.params.guide else " for a slot")
        + f", ran {total_s - waited_s:.3g} s and has {len(request.output_ids)} tokens; raise timeout_s, lower "
        "max_tokens, or send fewer requests at once", waited_s=waited_s, ran_s=total_s - waited_s)
