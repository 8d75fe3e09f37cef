"""Owns errors as HTTP answers: OpenAI's error objects and their status codes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from specguide.errors import (
    CompilerBusy,
    EngineClosed,
    EngineError,
    NothingLeft,
    PromptTooLong,
    QueueFull,
    RequestTimeout,
    SpecguideError,
    UserError,
)

_RETRY_AFTER_S = 1
_ANSWERS: dict[type[Any], tuple[int, str, str, int | None]] = {
    NothingLeft: (400, "invalid_request_error", "nothing_left", None),
    QueueFull: (429, "rate_limit_error", "queue_full", None),
    CompilerBusy: (503, "server_error", "compiler_busy", 5),
    RequestTimeout: (408, "timeout_error", "timeout", None),
    EngineError: (503, "server_error", "engine_failed", None),
    SpecguideError: (500, "server_error", "request_failed", None),
}
"""Status, kind, code, and seconds until the client should try again, for errors that are not the
user's mistake."""
_MAX_CHARS = 2000


class ErrorObject(BaseModel):
    """OpenAI's error object. param: the wrong field"""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(BaseModel):
    """The body of every error answer."""

    error: ErrorObject


RESPONSES: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorBody, "description": "The request is wrong; the error says what to do"},
    401: {"model": ErrorBody, "description": "The API key is missing or wrong"},
    404: {"model": ErrorBody, "description": "There is no such model or path"},
    408: {"model": ErrorBody, "description": "The body, or the answer, took too long"},
    413: {"model": ErrorBody, "description": "The body is too large"},
    415: {"model": ErrorBody, "description": "The body is compressed, which is not supported"},
    429: {
        "model": ErrorBody,
        "description": "Too many requests are under way; come back after Retry-After",
        "headers": {"Retry-After": {"description": "Seconds", "schema": {"type": "integer"}}},
    },
    503: {
        "model": ErrorBody,
        "description": "The engine has failed or is being closed; with Retry-After: the server has "
        "no room now for the body, or to compile another grammar",
        "headers": {"Retry-After": {"description": "Seconds", "schema": {"type": "integer"}}},
    },
    500: {"model": ErrorBody, "description": "The request, or the server, failed"},
    "4XX": {"model": ErrorBody, "description": "Any other refusal"},
}
"""The errors of an endpoint, for OpenAPI."""


def refusals(error: type[BaseModel]) -> dict[int | str, dict[str, Any]]:
    """The same for an endpoint of another vendor, whose errors have another form."""
    return {status: {**described, "model": error} for status, described in RESPONSES.items()}


class ApiError(Exception):
    """An error that is answered. status: of HTTP; kind, param, code: as in OpenAI's error object"""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.kind, self.param, self.code = status, kind, param, code
        self.retry_after_s = (
            _RETRY_AFTER_S if retry_after_s is None and status in (429, 503) else retry_after_s
        )

    @classmethod
    def of(cls, error: SpecguideError, param: str | None = None) -> ApiError:
        """The answer for an error of the engine. param: the wrong field, where the error does not
        name it"""
        if isinstance(error, UserError):
            code = "context_length_exceeded" if isinstance(error, PromptTooLong) else None
            param = error.param if param is None else param
            return cls(400, str(error), param=param, code=code)
        if isinstance(error, EngineClosed):
            return cls.shutting_down()
        answers = (_ANSWERS[one] for one in type(error).__mro__ if one in _ANSWERS)
        status, kind, code, after_s = next(answers)
        if isinstance(error, QueueFull) and error.retry_after_s is not None:
            after_s = math.ceil(error.retry_after_s)
        param = error.param if isinstance(error, NothingLeft) else None
        return cls(status, str(error), kind=kind, param=param, code=code, retry_after_s=after_s)

    @classmethod
    def client_left(cls) -> ApiError:
        """An error for the counts only; nobody reads it."""
        return cls(499, "the client has left")

    @classmethod
    def shutting_down(cls) -> ApiError:
        """The server has been told to stop."""
        return cls(
            503,
            "the server is being stopped and takes no more requests; use another one, or try again "
            "later",
            kind="server_error",
            code="shutting_down",
        )

    @classmethod
    def unforeseen(cls) -> ApiError:
        """A fault of the server."""
        return cls(
            500,
            "the server has failed to answer this request; its log says why",
            kind="server_error",
            code="internal_error",
        )

    def body(self) -> dict[str, Any]:
        """OpenAI's error object. Lone surrogates, which the message may quote from a request,
        become "?"."""
        return {
            "error": {
                "message": _sendable(str(self)),
                "type": self.kind,
                "param": None if self.param is None else _sendable(self.param),
                "code": self.code,
            }
        }

    def response(
        self,
        body_of: ErrorWriter = body,
        *,
        closes: bool = False,
    ) -> JSONResponse:
        """The response to send.

        body_of: the form of errors in the API of the request
        closes:  also close the connection, such as when a body is not read to its end
        """
        headers = {"Connection": "close"} if closes else {}
        if self.retry_after_s is not None:
            headers["Retry-After"] = str(self.retry_after_s)
        return JSONResponse(body_of(self), self.status, headers)


ErrorWriter = Callable[[ApiError], dict[str, Any]]
"""Writes an error in the form of an API."""


class Refusal(HTTPException):
    """An ApiError that can be raised while a body is read, since FastAPI passes HTTPException on.
    closes: also close the connection

    error: the ApiError
    """

    def __init__(self, error: ApiError, *, closes: bool = False) -> None:
        super().__init__(error.status, str(error))
        self.error, self._closes = error, closes

    def response(self, body_of: ErrorWriter = ApiError.body) -> JSONResponse:
        """The response to send, see ApiError."""
        return self.error.response(body_of, closes=self._closes)


def _sendable(text: str) -> str:
    whole = text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]} …"
    return whole.encode(errors="replace").decode()
