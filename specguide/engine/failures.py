"""Owns the errors that requests end with while they run: what went wrong, in words that say what to
do."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from specguide.batch import Batch
from specguide.errors import MatcherError, RequestError, RequestTimeout, SpecguideError
from specguide.request import Request


def iteration_errors(
    batch: Batch,
    tokens: Sequence[Sequence[int]],
    failures: Mapping[tuple[int, int], RequestError],
    latched: Mapping[int, MatcherError],
) -> dict[int, SpecguideError]:
    """By slot, what ends a request behind the tokens that an iteration gave it.

    tokens:   of each request; the last is -1 where none can follow
    failures: as in StepOutput
    latched:  what the grammar callbacks have found, by slot. What they find behind the
              verification, perhaps on a way that the target does not go, holds the slot from the
              next iteration on, and ends its request there
    """
    errors: dict[int, SpecguideError] = {}
    for place, (request, slot, new) in enumerate(
        zip(batch.requests, batch.slots, tokens, strict=True)
    ):
        forbidding = [
            *(["logits_processors"] if request.processors else []),
            *(request.adjustment.forbidding if request.adjustment else ()),
        ]
        is_stuck = len(new) > 0 and new[-1] < 0
        if (place, len(new) - 1) in failures:
            errors[slot] = failures[place, len(new) - 1]
        elif is_stuck and (forbidding or slot not in latched):
            names = " and ".join([*(["the grammar"] if request.grammar else []), *forbidding])
            errors[slot] = RequestError(
                f"no token can follow after {len(request.output_ids) + len(new) - 1}: "
                + (f"{names} leave none, or " if names else "")
                + "the model's logits are not numbers"
            )
        elif slot in latched and (is_stuck or not new):
            errors[slot] = (
                latched[slot]
                if not forbidding
                else MatcherError(
                    f"{latched[slot]}; what it allows, {' and '.join(forbidding)} may have "
                    "forbidden"
                )
            )
    return errors


def timeout(request: Request) -> RequestTimeout:
    """Of a request whose deadline has come."""
    metrics, total_s = request.metrics, time.perf_counter() - request.arrival_s
    waited_s = metrics.queue_s or total_s
    return RequestTimeout(
        f"the request had not ended after timeout_s ({request.params.timeout_s:g} s): it waited "
        f"{waited_s:.3g} s"
        + (" for its grammar or a slot" if request.params.guide else " for a slot")
        + f", ran {total_s - waited_s:.3g} s and has {len(request.output_ids)} tokens; raise "
        "timeout_s, lower "
        "max_tokens, or send fewer requests at once",
        waited_s=waited_s,
        ran_s=total_s - waited_s,
    )


def told(cause: BaseException) -> str:
    """A failure in words; of Ctrl-C, an exit and the like, which have none that make sense alone,
    with their name."""
    return (
        str(cause)
        if isinstance(cause, Exception) and str(cause)
        else f"{type(cause).__name__}({cause})"
    )
