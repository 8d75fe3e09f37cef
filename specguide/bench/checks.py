"""Owns what can be wrong with answers: refused, lost, mixed up with others, or invalid."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from specguide.bench.answer import Answer
from specguide.bench.validation import violation

FAULTS = ("refused", "lost", "crossed", "invalid")
_MARKER = re.compile(r"req-\d+-[0-9a-f]{4}")
_REASONS = ("stop", "length", "tool_calls")


@dataclass(frozen=True)
class Fault:
    """Something that is wrong with an answer.

    kind:   one of FAULTS. refused: a proper refusal, HTTP 4xx; lost: it broke, hung, or its stream
            has no end; crossed: it contains something of another request; invalid: it is whole, but
            not what was asked for
    cause:  a few words, by which faults are counted
    detail: for a human
    """

    kind: str
    cause: str
    detail: str = ""


def faults_of(answers: Sequence[Answer]) -> list[list[Fault]]:
    """The faults of each answer, in order; an answer that is right has none."""
    num_with = Counter(id for answer in answers for id in answer.ids)
    markers = {answer.request.marker for answer in answers}
    found = []
    for answer in answers:
        crossed = list(_crossed(answer, num_with, markers))
        broken = list(_broken(answer))
        found.append([*crossed, *broken] or list(_invalid(answer)))
    return found


def _crossed(answer: Answer, num_with: Counter[str], markers: Container[str]) -> Iterator[Fault]:
    if len(answer.ids) > 1:
        yield Fault("crossed", "chunks of several ids", ", ".join(sorted(answer.ids)))
    elif any(num_with[id] > 1 for id in answer.ids):
        yield Fault("crossed", "an id of several answers", ", ".join(answer.ids))
    texts = [answer.content, *(call.arguments for call in answer.calls.values())]
    foreign = {marker for text in texts for marker in _MARKER.findall(text) if marker in markers}
    if foreign - {answer.request.marker}:
        yield Fault(
            "crossed",
            "another request's marker",
            f"{foreign} in the answer to {answer.request.marker}",
        )


def _broken(answer: Answer) -> Iterator[Fault]:
    if answer.status is not None and 400 <= answer.status < 500:
        yield Fault("refused", f"HTTP {answer.status}", answer.failure[1] if answer.failure else "")
    elif answer.failure is not None:
        yield Fault("lost", *answer.failure)
    elif not answer.is_done:
        yield Fault("lost", "no [DONE]", f"after {answer.content[-80:]!r}")
    elif answer.finish_reason is None:
        yield Fault("lost", "no finish_reason", f"after {answer.content[-80:]!r}")


def _invalid(answer: Answer) -> Iterator[Fault]:
    if answer.finish_reason not in _REASONS:
        yield Fault("invalid", "finish_reason", f"it is {answer.finish_reason!r}")
    is_cut = answer.finish_reason == "length"
    if answer.request.schema is not None and is_cut and answer.content.strip()[:1] not in ("", "{"):
        yield Fault("invalid", "schema", f"no object: {answer.content[:200]}")
    if answer.request.schema is not None and not is_cut:
        reason = _reason(answer.request.schema, answer.content)
        if reason is not None:
            yield Fault("invalid", "schema", f"{reason}: {answer.content[:200]}")
    yield from _invalid_calls(answer, is_cut=is_cut)
    yield from _invalid_usage(answer)


def _invalid_calls(answer: Answer, *, is_cut: bool) -> Iterator[Fault]:
    parameters = answer.request.parameters
    calls = list(answer.calls.values())
    if parameters and not calls and not is_cut:
        yield Fault("invalid", "no call", answer.content[:200])
    for call in calls[:-1] if is_cut else calls:
        if call.name not in parameters:
            yield Fault("invalid", "unknown tool", call.name)
        elif (reason := _reason(parameters[call.name], call.arguments)) is not None:
            yield Fault("invalid", "arguments", f"{reason}: {call.name}({call.arguments[:200]})")


def _reason(schema: Any, text: str) -> str | None:
    """Why a text is not an instance; None also if that cannot be decided."""
    try:
        return violation(schema, text)
    except LookupError:
        return None


def _invalid_usage(answer: Answer) -> Iterator[Fault]:
    """Tokens are counted in three ways: by the usage, by log-probabilities if asked for, and as at
    least one per chunk."""
    usage = answer.usage
    most = answer.request.max_tokens
    num_chunks = len(answer.arrivals_s)
    if usage is None:
        yield Fault("invalid", "no usage")
        return
    num = answer.num_tokens
    if not 1 <= num <= most or usage.get("total_tokens") != num + (usage.get("prompt_tokens") or 0):
        yield Fault("invalid", "usage", f"{usage}, where max_tokens is {most}")
    elif answer.request.body.get("logprobs") and answer.num_scored != num:
        yield Fault(
            "invalid",
            "usage",
            f"{num} tokens, of which {answer.num_scored} came with log-probabilities",
        )
    elif answer.request.kind != "tools" and num_chunks > num:
        yield Fault("invalid", "usage", f"{num} tokens in {num_chunks} chunks")
