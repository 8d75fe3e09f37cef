"""Owns the log of requests. A line has uvicorn's form, with the request's id at its end, and is
written even if the client has left; further lines say why a request was refused."""

from __future__ import annotations

import copy
import json
import logging
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import LOGGING_CONFIG
from uvicorn.protocols.utils import get_client_addr, get_path_with_query_string

from specguide.request import EXTERNAL_ID
from specguide.server.http.errors import ApiError
from specguide.server.http.metrics import sent_status

_LOGGER = logging.getLogger("uvicorn.access")
_REFUSALS = "specguide.refusals"


class AccessLog:
    """ASGI middleware. Logs each answer in a line; uvicorn leaves out those whose client has
    left."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        status: int | None = None

        async def logged(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = sent_status(scope, message)
            await send(message)
            if message["type"] == "http.response.body" and status is not None:
                _log(scope, status)  # nobody waits for the log
                status = None

        try:
            await self._app(scope, receive, logged)
        finally:
            if status is not None:
                _log(scope, status)


def _log(scope: Scope, status: int) -> None:
    _LOGGER.info(
        '%s - "%s %s HTTP/%s" %d',
        get_client_addr(scope),  # type: ignore[arg-type]
        scope["method"],
        get_path_with_query_string(scope),  # type: ignore[arg-type]
        scope["http_version"],
        status,
    )


class WithRequestId(logging.Filter):
    """Gives every record the id."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = EXTERNAL_ID.get() or "-"
        return True


def log_refusal(error: ApiError) -> None:
    """Log why a request was refused, with its id, as one line of JSON by the logger
    "specguide.refusals", level INFO."""
    logger = logging.getLogger(_REFUSALS)
    if logger.isEnabledFor(logging.INFO):
        body = error.body()["error"]
        line = {
            "external_id": EXTERNAL_ID.get(),
            "status": error.status,
            "error": body["message"],
            "param": body["param"],
            "code": body["code"],
        }
        logger.info(json.dumps(line, ensure_ascii=False))


def write_refusals() -> None:
    """Write the lines of `log_refusal` to standard error."""
    logger = logging.getLogger(_REFUSALS)
    logger.addHandler(logging.StreamHandler())
    logger.setLevel(logging.INFO)


def log_config() -> dict[str, Any]:
    """uvicorn's log configuration, with the request's id."""
    config = copy.deepcopy(LOGGING_CONFIG)
    config["filters"] = {"request_id": {"()": WithRequestId}}
    config["handlers"]["access"]["filters"] = ["request_id"]
    config["formatters"]["access"]["fmt"] += " %(request_id)s"
    return config
