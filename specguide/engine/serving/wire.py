"""Owns the messages between front processes and the engine's core, as MessagePack.

A front opens a socket to the core, under a name of its own, and numbers its requests. Each message
is an array that begins with its type's name. A message that does not match its type is malformed:
`FROM_FRONT.decode` and `FROM_CORE.decode` raise one of MALFORMED. Before each message, a front
sends a frame with the number of the request or question, so that the core can refuse a malformed
message.

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
"""Most digits of a number, which must fit 64 bits."""


class Message(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """One message; it is one frame of the socket."""


class ArrayData(msgspec.Struct, frozen=True, array_like=True):
    """A numpy array. data: its bytes in C order; where they are read, within the message itself"""

    dtype: str
    shape: tuple[int, ...]
    data: memoryview


class ImageData(msgspec.Struct, frozen=True, array_like=True):
    """A PromptImage; its token ids are those of the prompt."""

    start: int
    num_tokens: int
    digest: bytes
    places: list[int]
    grid: tuple[int, int] | None
    arrays: dict[str, ArrayData]


class AddRequest(Message, frozen=True):
    """A request to run, with all its samples.

    request:    the front's number for it, never used again
    prompt_ids: token ids, at least one
    params:     SamplingParams as JSON text, see `wire_data.params_text`
    arrival_s:  when it came, by `time.perf_counter`, which all processes of a machine share
    client:     who asks
    external_id: see request.EXTERNAL_ID
    images:     the images among the tokens
    """

    request: int
    prompt_ids: tuple[int, ...]
    params: str
    priority: int
    arrival_s: float
    client: str = ""
    external_id: str = ""
    images: list[ImageData] = []


class Cancel(Message, frozen=True):
    """End a request as aborted; does nothing where it has ended."""

    request: int


class Ask(Message, frozen=True):
    """A question. question: the front's number for it"""

    question: int
    about: Literal["stats", "spans"]


class ErrorData(msgspec.Struct, frozen=True, array_like=True):
    """A SpecguideError as data. kind: name of its class; fields: its attributes"""

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
    """The parts of a RequestDelta that few requests ask for."""

    logprobs: list[dict[int, Logprob]] | None = None
    prompt_logprobs: list[dict[int, Logprob] | None] | None = None
    iterations: list[Iteration] | None = None


class Delta(msgspec.Struct, frozen=True, array_like=True):
    """The new output of one sample.

    index: index among the samples of its request
    text:  new text, only for requests with stop strings; the front makes all other texts
    """

    request: int
    index: int
    token_ids: list[int]
    text: str = ""
    end: End | None = None
    details: Details | None = None


class Deltas(Message, frozen=True):
    """All deltas of an iteration for one front."""

    deltas: list[Delta]


class Refused(Message, frozen=True):
    """A request was not taken, and all its samples have ended; or a question cannot be read."""

    request: int
    error: ErrorData


class Answer(Message, frozen=True):
    """The answer to a question, or the error why there is none."""

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
    """The number in such a frame; None where it has none."""
    return int(frame) if frame.isdigit() and len(frame) <= _MOST_DIGITS else None


MALFORMED = (msgspec.DecodeError, UnicodeDecodeError)
"""Errors that decoding raises; the second one for a type's name that is not UTF-8."""
ENCODER = msgspec.msgpack.Encoder()
FROM_FRONT = msgspec.msgpack.Decoder(AddRequest | Cancel | Ask)
FROM_CORE = msgspec.msgpack.Decoder(Deltas | Refused | Answer | Failed)
