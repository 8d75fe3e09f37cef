"""Owns the ingress: it reads a request, has Ray choose a replica, and passes on the answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

from ray.exceptions import RayActorError, RayError
from ray.serve.exceptions import (
    BackPressureError,
    DeploymentUnavailableError,
    RayServeException,
    ReplicaUnavailableError,
)
from ray.serve.handle import DeploymentHandle
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from specguide.request import EXTERNAL_ID
from specguide.serve_ray.exchange import (
    AnswerBody,
    AnswerHead,
    AnswerPiece,
    ForwardedRequest,
    NotTaken,
)
from specguide.serve_ray.replica_metrics import with_replica
from specguide.serve_ray.routing import RoutingKey
from specguide.serve_ray.routing_key import routing_key
from specguide.server.app import error_body, passed_stream
from specguide.server.config import ServerConfig
from specguide.server.http.body_room import BodyRoom
from specguide.server.http.error_answers import ErrorAnswers
from specguide.server.http.errors import ApiError, Refusal
from specguide.server.http.middleware import ApiKeys, BodyLimit, RootPath
from specguide.server.http.request_log import log_refusal, write_refusals

_HEALTH_PATHS = ("/health", "/ready", "/ping")
_HEALTH_S = 5.0
"""Time in seconds for any replica to report that it is healthy; after that, none counts as
healthy."""
_METRICS_S = 10.0
_MOST_TRIES, _RETRY_S = 20, 0.1
"""Number of tries while a replica is ending and Ray does not know it yet, and seconds between
two."""
_WITHOUT_ANSWER = (TimeoutError, RayError, RayServeException)
"""The exceptions that replace an answer of replicas."""
_LOGGER = logging.getLogger(__name__)


class Ingress:
    """Passes requests on to replicas. The replica checks the client's rights and what it asks for;
    the ingress only limits the body's size, for any model, and reads as much as the choice of a
    replica needs.

    A request that a replica has taken is never sent to another one, since it may have caused the
    first one's end. Its client is told, by a 503 with Retry-After or by an error in its stream.
    """

    def __init__(self, replicas: DeploymentHandle, config: ServerConfig) -> None:
        self._replicas = replicas
        self._answers = replicas.answer.options(stream=True)
        self._room = BodyRoom(config.max_bodies_bytes)
        self._under_way: set[asyncio.Task[None]] = set()
        self._is_over = False
        # a replica knows what its model reads, and refuses what is too large for text
        max_bytes = config.body_limit(reads_images=True)
        bounded = BodyLimit(self._pass_on, self._room, max_bytes, timeout_s=config.body_timeout_s)
        self._app: ASGIApp = ErrorAnswers(bounded, error_body)
        figures: ASGIApp = self._metrics
        if config.api_keys:
            guarded = ApiKeys(figures, config.api_keys, config.exposure.open_metrics)
            figures = RootPath(guarded, config.exposure.root_path)
        self._figures = ErrorAnswers(figures, error_body)
        if config.log_requests:
            write_refusals()

    async def __call__(self, request: Request) -> Response:
        """Answer any request."""
        is_metrics = request.url.path.endswith("/metrics") and request.method == "GET"
        return _Asgi(self._figures if is_metrics else self._app)

    async def stop(self, drain_s: float) -> None:
        """Take no more requests. Those under way have `drain_s` seconds; then they end with an
        error."""
        self._room.close(ApiError.shutting_down())
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=drain_s)
        self._is_over = True
        for asking in self._under_way:
            asking.cancel()

    async def _metrics(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the metrics of all replicas, each sample labelled with its replica. Raises
        Refusal where there is no replica."""
        asked = self._replicas.broadcast("metrics")
        try:
            found = await asked.results_async(timeout_s=_METRICS_S, return_exceptions=True)
        except _WITHOUT_ANSWER as cause:
            raise Refusal(error_of(cause)) from cause
        page = with_replica(one for one in found if not isinstance(one, BaseException))
        await PlainTextResponse(page)(scope, receive, send)

    async def _pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._room.closed_by is not None:
            raise self._room.closed_by
        path = scope["path"]
        body = await _read(receive)
        key = routing_key(body) if body else RoutingKey()
        request = ForwardedRequest.of(scope, body, key)
        passed_on = _PassedOn(send, path)
        try:
            within_s = _HEALTH_S if path.endswith(_HEALTH_PATHS) else None
            await asyncio.wait_for(self._asking(request, passed_on), within_s)
        except (*_WITHOUT_ANSWER, ApiError) as cause:
            _LOGGER.warning("%s has no answer: %s", path, _first_line(cause))
            await passed_on.fail(error_of(cause), scope, receive)

    async def _asking(self, request: ForwardedRequest, passed_on: _PassedOn) -> None:
        """`_ask`, until the time of `stop` is over. Raises the errors of `_ask`, and ApiError."""
        asking = asyncio.create_task(self._ask(request, passed_on))
        self._under_way.add(asking)
        try:
            await asking
        except asyncio.CancelledError:
            if self._is_over:
                raise ApiError.shutting_down() from None
            raise
        finally:
            asking.cancel()
            self._under_way.discard(asking)

    async def _ask(self, request: ForwardedRequest, passed_on: _PassedOn) -> None:
        """Ask replicas until one takes the request. Raises the errors of `_PassedOn.take`, and
        ApiError where none takes it."""
        for _ in range(_MOST_TRIES):
            answer: Any = self._answers.remote(request)
            try:
                if await passed_on.take(answer):
                    return
            finally:
                answer.cancel()
            await asyncio.sleep(_RETRY_S)
        raise error_of(TimeoutError())


class _Asgi(Response):
    """An ASGI application as a response: Ray lets it send its own answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        EXTERNAL_ID.set(Headers(scope=scope).get("x-request-id", ""))  # Ray's proxy adds it
        await self._app(scope, receive, send)


class _PassedOn:
    """An answer that is passed on to a client piece by piece. path: the path of the request

    The head is sent with the first piece of the body: if the replica is gone before that, a 503 can
    still be sent. A replica that is gone after the last piece does not matter.
    """

    def __init__(self, send: Send, path: str) -> None:
        self._send, self._path = send, path
        self._stream = passed_stream(path)
        self._head: AnswerHead | None = None
        self._has_begun = self._is_whole = False

    async def take(self, answer: AsyncIterator[AnswerPiece]) -> bool:
        """Pass on a whole answer. Returns False where the replica has not taken the request. Raises
        Ray's errors where the replica is gone, and ApiError for a part of an answer."""
        async for piece in answer:
            if isinstance(piece, NotTaken):
                return False
            if isinstance(piece, AnswerHead):
                self._head = piece
            else:
                self._stream.take(piece.piece)
                await self._tell(piece)
        if not self._is_whole:
            raise ApiError(
                500,
                "the replica has not sent a complete answer; its log may say why",
                kind="server_error",
            )
        return True

    async def _tell(self, body: AnswerBody) -> None:
        if self._head is not None and not self._has_begun:
            self._has_begun = True
            status, headers = self._head.status, self._head.headers
            start = {"type": "http.response.start", "status": status, "headers": headers}
            await self._send(start)
        self._is_whole = body.is_whole
        more = not body.is_whole
        await self._send({"type": "http.response.body", "body": body.piece, "more_body": more})

    async def fail(self, error: ApiError, scope: Scope, receive: Receive) -> None:
        """Tell the client, in the form of its API, that the rest of the answer will not come."""
        if self._is_whole:
            return
        if self._head is None or not self._has_begun:
            log_refusal(error)
            await error.response(error_body(self._path))(scope, receive, self._send)
            return
        if not dict(self._head.headers).get(b"content-type", b"").startswith(b"text/event-stream"):
            raise error  # a part of a body: its connection is closed
        await self._tell(AnswerBody(self._stream.end(error), is_whole=True))


def error_of(cause: BaseException) -> ApiError:
    """The error for a client that gets no answer."""
    if isinstance(cause, ApiError):
        return cause
    if isinstance(cause, BackPressureError):
        return ApiError(
            429,
            "too many requests wait for a replica; try again later",
            kind="rate_limit_error",
            code="queue_full",
        )
    if isinstance(cause, RayActorError | ReplicaUnavailableError):
        return ApiError(
            503,
            "the replica that had this request is gone; send it again, and another one answers",
            kind="server_error",
            code="replica_lost",
        )
    if isinstance(cause, DeploymentUnavailableError | asyncio.TimeoutError):
        return ApiError(
            503, "no replica is ready; try again later", kind="server_error", code="no_replica"
        )
    return ApiError(500, "the replica has failed; its log says why", kind="server_error")


async def _read(receive: Receive) -> bytes:
    """Read a request's whole body. Raises Refusal where it is too large or does not come, and
    ApiError where the client has left."""
    pieces = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Refusal(ApiError.client_left())
        pieces.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(pieces)


def _first_line(cause: BaseException) -> str:
    return (str(cause).strip().splitlines() or [type(cause).__name__])[0]
