"""Owns the end of a /v1/responses stream by an error: in the process that generates it, or in one
that passes it on when the other is gone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from specguide.server.apis.api import JsonObject, PassedStream
from specguide.server.http.errors import ApiError

_CREATED, _ITEM_DONE = "response.created", "response.output_item.done"
_KEPT = tuple(f"event: {kind}\n".encode() for kind in (_CREATED, _ITEM_DONE))


class PassedResponse(PassedStream):
    """A stream that is passed on. It keeps the response's first event and its complete items."""

    def __init__(self, *of_api: Any) -> None:
        super().__init__(*of_api)
        self._kept: list[bytes] = []
        self._last = b""

    def take(self, piece: bytes) -> None:
        if b"data: " in piece:  # not a comment
            self._last = piece
        if any(line in piece for line in _KEPT):
            self._kept.append(piece)

    def failed(self, error: ApiError) -> Iterator[JsonObject]:
        """As in ResponseRenderer, but an incomplete item is left out."""
        kept = [event for piece in self._kept for event in _events(piece)]
        begun: JsonObject = next((one["response"] for one in kept if one["type"] == _CREATED), {})
        items = [one["item"] for one in kept if one["type"] == _ITEM_DONE]
        failure = {"status": "failed", "output": items, "error": error_object(error)}
        number = max((event["sequence_number"] for event in _events(self._last)), default=-1) + 1
        for one in failure_events(error, begun | failure):
            yield {**one, "sequence_number": number}
            number += 1


def _events(piece: bytes) -> Iterator[JsonObject]:
    for line in piece.splitlines():
        if line.startswith(b"data: "):
            yield json.loads(line[6:])


def failure_events(error: ApiError, response: JsonObject) -> Iterator[JsonObject]:
    """The events that end a stream with an error, not yet numbered. response: the response so
    far"""
    yield {
        "type": "error",
        "code": error.code or error.kind,
        "message": str(error),
        "param": error.param,
    }
    yield {"type": "response.failed", "response": response}


def error_object(error: ApiError) -> JsonObject:
    """An error in the form of a response's `error`."""
    is_clients = error.kind == "invalid_request_error"
    return {"message": str(error), "code": "invalid_prompt" if is_clients else "server_error"}
