"""Owns the lines of a batch's files, a JSON object each: requests and answers in the form of
OpenAI's Batch API (https://platform.openai.com/docs/api-reference/batch/request-input)."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import msgspec

_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class BatchRequest(msgspec.Struct, frozen=True):
    """A line of the input file.

    custom_id: an id that no other line of the file has
    url:       path of an API, such as /v1/chat/completions
    body:      the body to post there
    """

    custom_id: str
    url: str
    body: msgspec.Raw
    method: str = "POST"


class BatchAnswer(msgspec.Struct, frozen=True):
    """The answer to a request. body: JSON, also of an error"""

    status_code: int
    request_id: str
    body: msgspec.Raw


class UnreadableLine(Exception):
    """A line that is not a valid request. custom_id: its own, if it can be read"""

    def __init__(self, message: str, custom_id: str | None = None) -> None:
        super().__init__(message)
        self.custom_id = custom_id


class _Named(msgspec.Struct):
    custom_id: str


class _Streamed(msgspec.Struct):
    stream: bool | None = None


def request_of(line: bytes) -> BatchRequest:
    """The request of a line. Raises UnreadableLine, with the custom_id if it can be read."""
    line = line.removeprefix(_BYTE_ORDER_MARK)
    try:
        request = msgspec.json.decode(line, type=BatchRequest)
    except _UNREADABLE as error:
        raise UnreadableLine(
            f"the line is not a batch request: {error}", _custom_id(line)
        ) from error
    if request.method != "POST":
        message = f"method must be POST, found {request.method!r}"
        raise UnreadableLine(message, request.custom_id)
    if _is_streamed(request.body):
        message = "answers of a batch cannot be streamed: leave stream out of the body"
        raise UnreadableLine(message, request.custom_id)
    return request


def answered(custom_id: str, answer: BatchAnswer) -> bytes:
    """The line of an answer."""
    return _line(custom_id, answer, None)


def failed(error: UnreadableLine, number: int) -> bytes:
    """The line for an invalid request; it tells the request's line number."""
    described = {"code": "invalid_request", "message": f"line {number}: {error}"}
    return _line(error.custom_id, None, described)


def _line(custom_id: str | None, response: BatchAnswer | None, error: Any) -> bytes:
    line = {
        "id": f"batch_req_{uuid4().hex}",
        "custom_id": custom_id,
        "response": response,
        "error": error,
    }
    return msgspec.json.encode(line) + b"\n"


def _custom_id(line: bytes) -> str | None:
    try:
        return msgspec.json.decode(line, type=_Named).custom_id
    except _UNREADABLE:
        return None


def _is_streamed(body: msgspec.Raw) -> bool:
    """False where the body cannot be read: the API's error explains it better."""
    try:
        return msgspec.json.decode(body, type=_Streamed).stream is True
    except _UNREADABLE:
        return False
