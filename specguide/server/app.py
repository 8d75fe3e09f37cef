"""Owns the HTTP application: its routes, its access control, and the form of its errors."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import PurePosixPath
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from prometheus_client import CollectorRegistry
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route

from specguide.engine import ServedEngine
from specguide.errors import SpecguideError
from specguide.server.apis import anthropic, chat, completions, responses
from specguide.server.apis.api import Api, PassedStream
from specguide.server.apis.plain_routes import router as plain_routes
from specguide.server.bodies.shared_fields import GeneratingBody
from specguide.server.config import ServerConfig
from specguide.server.http.body_room import BodyRoom
from specguide.server.http.error_answers import ErrorAnswers
from specguide.server.http.errors import RESPONSES, ApiError, ErrorWriter, Refusal, refusals
from specguide.server.http.json_body import BodyRoute
from specguide.server.http.metrics import AnswerCounts, EngineCollector, StatusCounts
from specguide.server.http.middleware import (
    ApiKeys,
    BodyLimit,
    HeadRequests,
    RootPath,
    cors,
)
from specguide.server.http.request_ids import RequestIds
from specguide.server.http.request_log import log_refusal
from specguide.server.http.tracing import telemetry
from specguide.server.playground import PLAYGROUND_PATHS
from specguide.server.playground import router as playground
from specguide.server.tasks.backend import Backend

APIS: tuple[Api[Any], ...] = (chat.API, responses.API, completions.API, anthropic.API)
"""The APIs that are served; a new API gets an entry here."""

_VERSION = "/v1"
_OPEN_PATHS = (
    *("/health", "/ready", "/ping", "/version", "/docs", "/openapi.json"),
    *PLAYGROUND_PATHS,
)
"""Paths that need no API key."""
_TEXT_ONLY = "this server only generates text"
OTHER_PATHS = {
    "/generate": "use /v1/completions",
    "/invocations": "use /v1/chat/completions or /v1/completions",
    **dict.fromkeys(("/health_generate", "/healthz", "/livez"), "use /health"),
    "/readyz": "use /ready",
    "/get_load": "use /load",
    "/v1/tokenize": "use /tokenize",
    "/v1/detokenize": "use /detokenize",
    "/abort_request": "close the request's connection, which cancels it",
    **dict.fromkeys(
        ("/start_profile", "/stop_profile"),
        "start the server with --trace, and see the playground at /",
    ),
    **dict.fromkeys(("/get_model_info", "/model_info"), "use /v1/models"),
    **dict.fromkeys(("/get_server_info", "/server_info"), "use /v1/models and /metrics"),
    **dict.fromkeys(
        ("/flush_cache", "/reset_prefix_cache"),
        "nothing to do: the prefix cache makes room by itself",
    ),
    **dict.fromkeys(("/v1/embeddings", "/encode", "/pooling", "/classify"), _TEXT_ONLY),
    **dict.fromkeys(("/v1/moderations", "/v1/images"), _TEXT_ONLY),
    **dict.fromkeys(
        ("/v1/files", "/v1/batches", "/v1/messages/batches"),
        "a file of requests is answered by the command specguide run-batch",
    ),
    **dict.fromkeys(("/v1/conversations", "/v1/responses"), "nothing is stored here"),
    **dict.fromkeys(("/score", "/v1/score", "/rerank", "/v1/rerank"), _TEXT_ONLY),
    **dict.fromkeys(
        ("/v2/rerank", "/v1/audio/transcriptions", "/v1/audio/translations", "/v1/audio/speech"),
        _TEXT_ONLY,
    ),
    **dict.fromkeys(
        ("/v1/load_lora_adapter", "/v1/unload_lora_adapter"),
        "adapters are given to the server when it starts: use --lora-modules",
    ),
    **dict.fromkeys(
        ("/sleep", "/wake_up", "/is_sleeping"), "stop the server, and start it again later"
    ),
    **dict.fromkeys(
        ("/v1/chat/completions/render", "/v1/completions/render", "/tokenizer_info"),
        "use /tokenize",
    ),
    "/inference/v1/generate": "use /v1/completions with token ids",
}
"""Paths of OpenAI's, vLLM's and SGLang's servers that are missing here, with what to do instead;
this includes the paths below them."""
router = APIRouter(route_class=BodyRoute, responses=RESPONSES)
_STREAMED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The answer, or with `stream` its pieces as server-sent events",
        "content": {
            "application/json": {"schema": {"type": "object"}},
            "text/event-stream": {},
        },
    }
}


def create_app(engine: ServedEngine, config: ServerConfig) -> FastAPI:
    """The API over an engine. When it is stopped, it closes the engine once its requests have
    ended."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await engine.close(config.drain_s)

    exposure = config.exposure
    app = FastAPI(
        title="specguide",
        lifespan=lifespan,
        telemetry=telemetry(exposure, config.model_name),
    )
    app.state.backend = Backend(engine, config)
    app.state.bodies = BodyRoom(config.max_bodies_bytes)
    app.state.registry = CollectorRegistry()
    app.state.registry.register(EngineCollector(engine, config.metrics_names, config.model_name))
    app.state.answers = AnswerCounts(app.state.registry)
    app.state.started_s = int(time.time())
    routers = (router, plain_routes, playground)
    for each in routers:
        app.include_router(each)
    app.add_middleware(
        BodyLimit,
        room=app.state.bodies,
        max_bytes=config.body_limit(reads_images=engine.tokenizer.images is not None),
        timeout_s=config.body_timeout_s,
    )
    if config.api_keys:
        open_paths = {*_OPEN_PATHS, *exposure.open_metrics}
        app.add_middleware(ApiKeys, keys=config.api_keys, open_paths=open_paths)
    app.add_middleware(ErrorAnswers, body_of=error_body)
    if exposure.allowed_origins:
        app.add_middleware(CORSMiddleware, **cors(exposure))
    app.add_middleware(HeadRequests)
    app.add_middleware(RequestIds)
    paths = {one.path for each in routers for one in each.routes if isinstance(one, Route)}
    app.add_middleware(StatusCounts, answers=app.state.answers, paths=paths)
    app.add_middleware(RootPath, root_path=exposure.root_path)
    for kind in (ApiError, SpecguideError, RequestValidationError, Refusal, HTTPException):
        app.exception_handler(kind)(_refuse)
    return app


def error_body(path: str) -> ErrorWriter:
    """The function that writes an error in the form of the API with this path, under any root
    path."""
    api = _api_of(path)
    return ApiError.body if api is None else api.error_body


def passed_stream(path: str) -> PassedStream:
    """A stream of that API that another process sends."""
    api = _api_of(path)
    return PassedStream() if api is None else api.passed_stream()


def _api_of(path: str) -> Api[Any] | None:
    return next((api for api in APIS if api.path in path), None)


async def _refuse(request: Request, error: Any) -> Response:
    """The answer to any error, in the form of the requested API."""
    body_of = error_body(request.scope["path"])
    if isinstance(error, Refusal):
        log_refusal(error.error)
        return error.response(body_of)
    headers = None
    if isinstance(error, SpecguideError):
        error = ApiError.of(error)
    elif isinstance(error, RequestValidationError):
        error = _invalid(error)
    elif isinstance(error, HTTPException):
        headers = error.headers
        error = ApiError(error.status_code, _unrouted(request, error))
    log_refusal(error)
    answer: Response = error.response(body_of)
    answer.headers.update(headers or {})
    return answer


def _unrouted(request: Request, error: HTTPException) -> str:
    """The error's message for an unknown path or method."""
    path = request.url.path
    if error.status_code == 404:
        asked = path.removeprefix(request.scope["root_path"])
        meant = _with_same_end(path)
        if meant is not None and asked not in OTHER_PATHS:
            at = request.scope["root_path"] + meant
            return f"there is nothing at {path}, but at {at}: correct the client's base URL"
        above = (str(one) for one in (PurePosixPath(asked), *PurePosixPath(asked).parents))
        remedy = next((OTHER_PATHS[one] for one in above if one in OTHER_PATHS), None)
        more = "; /docs says what there is" if remedy is None else f": {remedy}"
        return f"there is nothing at {path}{more}"
    if error.status_code == 405:
        return f"{path} takes {(error.headers or {}).get('Allow')}, not {request.method}"
    return str(error.detail)


def _with_same_end(path: str) -> str | None:
    """The path that a client means whose base URL lacks /v1, or has it twice: the longest API path
    with the same end."""
    routes = (one for one in (*router.routes, *plain_routes.routes) if isinstance(one, Route))
    paths = [one.path for one in routes if one.path.startswith(_VERSION)]
    alike = [one for one in paths if path.endswith(one.removeprefix(_VERSION))]
    return max(alike, key=len, default=None)


def _add_route(api: Api[Any]) -> None:
    async def answer(body: GeneratingBody, request: Request) -> Response:
        return await api.answer(body, request)

    answer.__annotations__["body"] = api.body  # which FastAPI validates and documents
    router.add_api_route(
        api.path,
        answer,
        methods=["POST"],
        responses=refusals(api.error) | _STREAMED,
        description=api.about,
    )


for _api in APIS:
    _add_route(_api)


def _invalid(error: RequestValidationError) -> ApiError:
    """The error for the first wrong value of a body, whose place is written as in JSON."""
    errors = error.errors()
    first = errors[0]
    if isinstance(error.body, bytes):
        return ApiError(
            400, "the body is read as JSON only with the header content-type: application/json"
        )
    if first["type"] == "json_invalid":
        return ApiError(
            400, f"the body is not JSON: {first['ctx']['error']} at character {first['loc'][-1]}"
        )
    place, message = _wrong(errors)
    code = None
    if first["type"] == "field":
        place.append(first["ctx"]["name"])
        code = first["ctx"]["code"]
    param = (
        "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")
        or None
    )
    message = first["msg"] if first["type"] == "field" else f"{param or 'body'}: {message}"
    return ApiError(400, message, param=param, code=code)


def _wrong(errors: Sequence[Any]) -> tuple[list[Any], str]:
    """The place and the message of the first error. For a value that may have several types, the
    error of the type that matches furthest."""
    place = _place(errors[0])
    if len(place) == len(errors[0]["loc"]) - 1:  # behind "body"
        return place, errors[0]["msg"]
    of_value = [one for one in errors if _place(one)[: len(place)] == place]
    furthest = max(map(_place, of_value), key=_indices)
    messages = dict.fromkeys(one["msg"] for one in of_value if _place(one) == furthest)
    head, *others = messages
    return furthest, " or ".join([head, *(one.removeprefix("Input should be ") for one in others)])


def _indices(place: Sequence[Any]) -> list[int]:
    """The indices in a place, for comparison; a member of an object counts as -1, before any
    element of an array."""
    return [part if isinstance(part, int) else -1 for part in place]


def _place(error: Any) -> list[Any]:
    """The place of an error in the body, without the types that a value may have."""
    return [
        part
        for part in error["loc"]
        if part not in ("body", "str", "bool") and "[" not in str(part)
    ]
