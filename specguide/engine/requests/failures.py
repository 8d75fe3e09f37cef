"""Owns the errors with which running requests end. Each message says what went wrong and what to
do."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from specguide.batch import Batch
from specguide.errors import MatcherError, NothingLeft, RequestError, RequestTimeout, SpecguideError
from specguide.params import SamplingParams
from specguide.request import Request

_NEUTRAL = SamplingParams()
_FORBIDDING = ("logits_processors", "allowed_token_ids", "bad_words", "min_tokens")
_ENDING = ("allowed_token_ids", "bad_words")
"""Those of _FORBIDDING that come from the client, who can then end its own request."""
_EMPTY = "the grammar allows no token"
"""The beginning of a walk's error where a row, or the choice from it, is empty."""


def iteration_errors(
    batch: Batch,
    requests: Sequence[Request],
    tokens: Sequence[Sequence[int]],
    failures: Mapping[tuple[int, int], RequestError],
    latched: Mapping[int, MatcherError],
) -> dict[int, SpecguideError]:
    """The errors, by slot, that end requests after the tokens of an iteration.

    tokens:   the tokens of each request; the last is -1 where no token can follow
    failures: as in StepOutput
    latched:  errors that grammar callbacks have found, by slot. An error on drafts that are not
              verified yet may be on a path that the target does not take. It does not end the
              request now; it holds the slot from the next iteration on, and ends the request there
    """
    errors: dict[int, SpecguideError] = {}
    for row, (request, slot, new) in enumerate(zip(requests, batch.slots, tokens, strict=True)):
        is_stuck = len(new) > 0 and new[-1] < 0
        if (row, len(new) - 1) in failures:
            errors[slot] = failures[row, len(new) - 1]
        elif is_stuck and (slot not in latched or _forbidding(request)):
            errors[slot] = _nothing_left(request, len(request.output_ids) + len(new) - 1)
        elif slot in latched and (is_stuck or not new):
            errors[slot] = _latched(latched[slot], _forbidding(request))
    return errors


def _nothing_left(request: Request, num_tokens: int) -> RequestError:
    forbidding = _forbidding(request)
    is_guided = request.params.guide is not None
    names = " and ".join([*(["the grammar"] if is_guided else []), *forbidding])
    words = f"no token can follow after {num_tokens} tokens of output: "
    if is_guided and not forbidding:  # as in the walk's own error, which comes later
        words += f"{_EMPTY}, or "
    elif names:
        words += f"every token is forbidden by {names}, or "
    return _by_client(f"{words}the model's logits are NaN", forbidding, RequestError)


def _latched(error: MatcherError, forbidding: Sequence[str]) -> RequestError:
    if not forbidding:
        return error
    words = f"{error}; the tokens that it allows may be forbidden by {' and '.join(forbidding)}"
    if not str(error).startswith(_EMPTY):
        return MatcherError(words)
    return _by_client(words, forbidding, MatcherError)


def _by_client(words: str, forbidding: Sequence[str], other: type[RequestError]) -> RequestError:
    """The error of a request that no token can continue. other: the error's class where the
    client's own parameters are not the cause"""
    param = next((name for name in forbidding if name in _ENDING), None)
    if param is None:
        return other(words)
    return NothingLeft(f"{words}; change {param} so that a token may follow", param=param)


def _forbidding(request: Request) -> list[str]:
    """Names of the request's parameters that may forbid every token."""
    return [
        name for name in _FORBIDDING if getattr(request.params, name) != getattr(_NEUTRAL, name)
    ]


def timeout(request: Request) -> RequestTimeout:
    """The error of a request whose deadline has passed."""
    metrics = request.metrics
    total_s = time.perf_counter() - request.arrival_s
    waited_s = metrics.queue_s or total_s
    return RequestTimeout(
        f"the request had not ended after timeout_s ({request.params.timeout_s:g} s): it waited "
        f"{waited_s:.3g} s"
        + (" for its grammar or a slot" if request.params.guide else " for a slot")
        + f", ran {total_s - waited_s:.3g} s and has {len(request.output_ids)} tokens; raise "
        "timeout_s, lower max_tokens, or send fewer requests at once",
        waited_s=waited_s,
        ran_s=total_s - waited_s,
    )


def in_words(cause: BaseException) -> str:
    """An exception in words. Ctrl-C, exits and exceptions without a message are named by their
    class, since their words alone would make no sense."""
    return (
        str(cause)
        if isinstance(cause, Exception) and str(cause)
        else f"{type(cause).__name__}({cause})"
    )
