"""Owns the HTTP application: routes, who may ask, and how errors are told."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from specguide.engine import ServedEngine
from specguide.errors import InvalidParams, SpecguideError
from specguide.server import anthropic, chat, completions, responses
from specguide.server.api import Api
from specguide.server.backend import Backend, unless_left
from specguide.server.bodies import BodyRoom
from specguide.server.body import BodyRoute
from specguide.server.config import ServerConfig
from specguide.server.errors import RESPONSES, ApiError, Refusal
from specguide.server.messages import template_messages
from specguide.server.metrics import EngineCollector, StatusCounts
from specguide.server.middleware import ApiKeys, BodyLimit, Cancellable, RequestIds, RootPath, cors
from specguide.server.playground import router as playground
from specguide.server.prompt import prompt_ids
from specguide.server.requests import (
    DetokenizeRequest,
    GeneratingBody,
    TokenizeRequest,
)
from specguide.server.tracing import telemetry

APIS: tuple[Api[Any], ...] = (chat.API, responses.API, completions.API, anthropic.API)
"""Those that are served: whoever adds one enters it here."""

T = TypeVar("T")
B = TypeVar("B")

router = APIRouter(route_class=BodyRoute, responses=RESPONSES)
_STREAMED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The answer, or with `stream` its pieces as server-sent events",
        "content": {
            "application/json": {"schema": {"type": "object"}},
            "text/event-stream": {"schema": {"type": "string"}},
        },
    }
}
_TEXT: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/plain": {"schema": {"type": "string"}}}}
}


def create_app(engine: ServedEngine, config: ServerConfig, front: str = "") -> FastAPI:
    """The API over an engine, which it closes when it is stopped, once its requests have ended.

    front: tells the process from others that serve the same engine
    """

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
    app.state.started_s = int(time.time())
    app.include_router(router)
    app.include_router(playground)
    app.add_middleware(
        BodyLimit,
        room=app.state.bodies,
        max_bytes=config.max_body_bytes,
        timeout_s=config.body_timeout_s,
    )
    if config.api_keys:
        app.add_middleware(ApiKeys, keys=config.api_keys, protects_metrics=exposure.protect_metrics)
    if exposure.allowed_origins:
        app.add_middleware(CORSMiddleware, **cors(exposure.allowed_origins))
    app.add_middleware(RequestIds)
    app.add_middleware(StatusCounts, registry=app.state.registry, front=front)
    app.add_middleware(RootPath, root_path=exposure.root_path)
    app.add_middleware(Cancellable)  # around all others
    for kind in (ApiError, SpecguideError, RequestValidationError, Refusal, HTTPException):
        app.exception_handler(kind)(_refuse)
    return app


async def _refuse(request: Request, error: Any) -> Response:
    """Any error, in the words of the API that was asked."""
    path = getattr(request.scope.get("route"), "path", "")
    body_of = next((api.error_body for api in APIS if path.startswith(api.path)), ApiError.body)
    if isinstance(error, Refusal):
        return error.response(body_of)
    if isinstance(error, SpecguideError):
        error = ApiError.of(error)
    elif isinstance(error, RequestValidationError):
        error = _invalid(error)
    elif isinstance(error, HTTPException):
        error = ApiError(error.status_code, str(error.detail))
    answer: Response = error.response(body_of)
    return answer


def _add_route(api: Api[Any]) -> None:
    async def answer(body: GeneratingBody, request: Request) -> Response:
        return await api.answer(body, request)

    answer.__annotations__["body"] = api.body  # which FastAPI validates and documents
    router.add_api_route(
        api.path, answer, methods=["POST"], responses=_STREAMED, description=api.about
    )


for _api in APIS:
    _add_route(_api)


@router.get("/v1/models")
async def models(request: Request) -> dict[str, Any]:
    """The one that is served."""
    backend = _backend(request)
    return {
        "object": "list",
        "data": [
            {
                "id": backend.config.model_name,
                "object": "model",
                "created": request.app.state.started_s,
                "owned_by": "specguide",
                "max_model_len": backend.engine.max_model_len,
            }
        ],
    }


@router.post("/tokenize")
async def tokenize(body: TokenizeRequest, request: Request) -> dict[str, Any]:
    """Token ids of a prompt, or of messages behind the chat template."""
    tokens = await _understood(request, _tokens, body)
    return {
        "tokens": tokens,
        "count": len(tokens),
        "max_model_len": _backend(request).engine.max_model_len,
    }


@router.post("/v1/messages/count_tokens")
async def count_tokens(body: anthropic.CountRequest, request: Request) -> dict[str, Any]:
    """Tokens of the prompt that a body of /v1/messages comes to."""
    return await _understood(request, anthropic.count, body)


@router.post("/detokenize")
async def detokenize(body: DetokenizeRequest, request: Request) -> dict[str, Any]:
    """Text of token ids."""
    return {"prompt": await _understood(request, _text, body)}


@router.get("/health")
@router.get("/ready")
async def health(request: Request) -> Response:
    """200 while requests are taken, else 503 and why not."""
    cause = _backend(request).engine.health.cause
    return JSONResponse(
        {"status": "ok"} if cause is None else {"status": "unhealthy", "cause": str(cause)},
        200 if cause is None else 503,
    )


@router.get("/metrics", response_class=PlainTextResponse, responses=_TEXT)
async def metrics(request: Request) -> Response:
    """For Prometheus."""
    await _backend(request).engine.refresh_stats()
    return Response(generate_latest(request.app.state.registry), media_type=CONTENT_TYPE_LATEST)


def _backend(request: Request) -> Backend:
    backend: Backend = request.app.state.backend
    return backend


async def _understood(request: Request, understand: Callable[[Backend, B], T], body: B) -> T:
    """In a thread, since a schema or a prompt may be long."""
    backend = _backend(request)
    return await unless_left(
        request, backend.understood(len(await request.body()), understand, body)
    )


def _tokens(backend: Backend, body: TokenizeRequest) -> list[int]:
    backend.check_model(body.model)
    if (body.prompt is None) == (body.messages is None):
        raise InvalidParams("give a prompt or messages", param="prompt")
    if body.prompt is not None:
        return backend.tokenizer.encode(body.prompt, body.add_special_tokens)
    return prompt_ids(
        backend, body, ("messages", template_messages(body.messages or ())), tools=body.tools
    )


def _text(backend: Backend, body: DetokenizeRequest) -> str:
    backend.check_model(body.model)
    size = backend.engine.vocab_size
    bad = next((token for token in body.tokens if not 0 <= token < size), None)
    if bad is not None:
        raise InvalidParams(
            f"token {bad} is not an id of this model's {size} tokens", param="tokens"
        )
    return backend.tokenizer.decode(body.tokens, skip_special_tokens=False)


def _invalid(error: RequestValidationError) -> ApiError:
    """The first thing that is wrong with a body, named as one would in JSON."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return ApiError(
            400, f"the body is not JSON: {first['ctx']['error']} at character {first['loc'][-1]}"
        )
    place = [
        part
        for part in first["loc"]
        if part not in ("body", "str", "bool") and "[" not in str(part)
    ]
    if first["type"] == "unknown_field":
        place.append(first["ctx"]["name"])
    param = (
        "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place).lstrip(".")
        or None
    )
    message = (
        f"unknown field {param}"
        if first["type"] == "unknown_field"
        else f"{param or 'body'}: {first['msg']}"
    )
    return ApiError(400, message, param=param)
