"""Owns what front processes and the engine's core say to each other: messages, as MessagePack.

A front opens a socket to the core, under a name of its own, and numbers its requests. Each message
is an array that begins with its type's name. What does not match its type is no message:
`FROM_FRONT.decode` and `FROM_CORE.decode` raise one of MALFORMED. Before each message of a front
there is a frame with its number, by which the core refuses what it cannot read.

| from a front | from the core          |
|--------------|------------------------|
| AddRequest   | Deltas, Refused        |
| Cancel       | Deltas, with the end   |
| Ask          | Answer                 |
|              | Failed, to all fronts  |
"""

from __future__ import annotations

from typing import Literal

import msgspec

from specguide.engine.stats import EngineStats
from specguide.request import FinishReason
from specguide.request_records import Iteration, Logprob, RequestMetrics
from specguide.trace import Span

_MOST_DIGITS = 18
"""Most digits of a number, which has 64 bits."""


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """One message, and at the same time one frame of its socket."""


class AddRequest(Message, frozen=True):
    """A request to run; each of its samples is told apart.

    request:    the front's number for it, never used again
    prompt_ids: token ids, at least one
    params:     SamplingParams as JSON text, see `wire_data.params_text`
    arrival_s:  when it came, by `time.perf_counter`, which all processes of a machine share
    client:     who asks
    external_id: see request.EXTERNAL_ID
    """

    request: int
    prompt_ids: tuple[int, ...]
    params: str
    priority: int
    arrival_s: float
    client: str = ""
    external_id: str = ""


class Cancel(Message, frozen=True):
    """End a request as aborted; nothing where it has ended."""

    request: int


class Ask(Message, frozen=True):
    """A question. question: the front's number for it"""

    question: int
    about: Literal["stats", "spans"]


class ErrorData(msgspec.Struct, frozen=True, array_like=True):
    """A SpecguideError. kind: name of its class; fields: its attributes"""

    kind: str
    message: str
    fields: dict[str, str | int | float | None] = {}


class End(msgspec.Struct, frozen=True, array_like=True):
    """How a sample ended, as in RequestOutput."""

    finish_reason: FinishReason
    stop_reason: str | int | None
    error: ErrorData | None
    metrics: RequestMetrics


class Details(msgspec.Struct, frozen=True, array_like=True):
    """What few requests ask for, as in RequestDelta."""

    logprobs: list[dict[int, Logprob]] | None = None
    prompt_logprobs: list[dict[int, Logprob] | None] | None = None
    iterations: list[Iteration] | None = None


class Delta(msgspec.Struct, frozen=True, array_like=True):
    """What is new of one sample.

    index: which of its request's samples it is
    text:  of requests with stop strings; the front makes that of all others
    """

    request: int
    index: int
    token_ids: list[int]
    text: str = ""
    end: End | None = None
    details: Details | None = None


class Deltas(Message, frozen=True):
    """All that an iteration has for a front."""

    deltas: list[Delta]


class Refused(Message, frozen=True):
    """A request that was not taken, all of whose samples have ended; or a question that cannot be
    read."""

    request: int
    error: ErrorData


class Answer(Message, frozen=True):
    """Answers a question: what was asked about, or why not."""

    question: int
    stats: EngineStats | None = None
    spans: list[Span] | None = None
    error: ErrorData | None = None


class Failed(Message, frozen=True):
    """The engine has failed: it takes no more requests."""

    error: ErrorData


def number_frame(number: int) -> bytes:
    """The frame to send before a message."""
    return b"%d" % number


def number_of(frame: bytes) -> int | None:
    """What such a frame says."""
    return int(frame) if frame.isdigit() and len(frame) <= _MOST_DIGITS else None


MALFORMED = (msgspec.DecodeError, UnicodeDecodeError)
"""What decoding raises; the second for a type's name that is no UTF-8."""
ENCODER = msgspec.msgpack.Encoder()
FROM_FRONT = msgspec.msgpack.Decoder(AddRequest | Cancel | Ask)
FROM_CORE = msgspec.msgpack.Decoder(Deltas | Refused | Answer | Failed)
