"""Owns how errors are told over HTTP: OpenAI's error objects and their status codes."""

from __future__ import annotations

from typing import Any

from fastapi.responses import JSONResponse

from specguide.errors import (
    EngineError,
    QueueFull,
    RequestTimeout,
    SpecguideError,
    UserError,
)

_RETRY_AFTER_S = 1


class ApiError(Exception):
    """An answer with an error. status: of HTTP; kind, param, code: as OpenAI has them"""

    def __init__(self, status: int, message: str, *, kind: str = "invalid_request_error", param: str | None = None,
                 code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.kind, self.param, self.code = status, kind, param, code

    @classmethod
    def of(cls, error: SpecguideError) -> ApiError:
        """What an error of the engine is to a client."""
        if isinstance(error, UserError):
            return cls(400, str(error), param=error.param)
        if isinstance(error, QueueFull):
            return cls(429, str(error), kind="rate_limit_error", code="queue_full")
        if isinstance(error, RequestTimeout):
            return cls(408, str(error), kind="timeout_error", code="timeout")
        if isinstance(error, EngineError):
            return cls(503, str(error), kind="server_error", code="engine_failed")
        return cls(500, str(error), kind="server_error", code="request_failed")

    def body(self) -> dict[str, Any]:
        """OpenAI's error object."""
        return {"error": {"message": str(self), "type": self.kind, "param": self.param, "code": self.code}}

    def response(self) -> JSONResponse:
        """To send."""
        headers = {"Retry-After": str(_RETRY_AFTER_S)} if self.status == 429 else None
        return JSONResponse(self.body(), self.status, headers)
