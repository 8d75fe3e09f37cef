"""Owns the routes that generate nothing: models, tokens, health and figures."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from specguide.errors import InvalidParams
from specguide.host.release import installed_version
from specguide.server.apis import anthropic, responses
from specguide.server.bodies.base_body import Body
from specguide.server.bodies.ignored import ignored_header
from specguide.server.bodies.requests import DetokenizeRequest, ResponsesRequest, TokenizeRequest
from specguide.server.http.errors import RESPONSES, ApiError, refusals
from specguide.server.http.json_body import BodyRoute
from specguide.server.tasks.backend import Backend, unless_left
from specguide.server.tasks.messages import template_messages
from specguide.server.tasks.prompt import Conversation, prompt_ids

B = TypeVar("B", bound=Body)

router = APIRouter(route_class=BodyRoute, responses=RESPONSES)
_TEXT: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/plain": {"schema": {"type": "string"}}}}
}


@router.get("/v1/models")
@router.get("/v1/models/", include_in_schema=False)
async def models(request: Request) -> dict[str, Any]:
    """The served model, under each of its names, and its adapters; with Anthropic's fields beside
    OpenAI's."""
    names = _backend(request).model_names
    return {
        "object": "list",
        "data": [_model(request, name) for name in names],
        "has_more": False,
        "first_id": names[0],
        "last_id": names[-1],
    }


@router.get("/v1/models/{name:path}")
async def model(name: str, request: Request) -> dict[str, Any]:
    """The model, under one of its names."""
    _backend(request).check_model(name)
    return _model(request, name)


@router.post("/tokenize")
async def tokenize(body: TokenizeRequest, request: Request) -> Response:
    """Token ids of a prompt, or of messages in the chat template."""
    return await _understood(request, _tokenized, body)


@router.post("/v1/messages/count_tokens", responses=refusals(anthropic.Refused))
async def count_tokens(body: anthropic.CountRequest, request: Request) -> Response:
    """The number of prompt tokens of a /v1/messages body."""
    return await _understood(request, anthropic.count, body)


@router.post("/v1/responses/input_tokens")
async def input_tokens(body: ResponsesRequest, request: Request) -> Response:
    """The number of prompt tokens of a /v1/responses body."""
    return await _understood(request, responses.count, body)


@router.post("/detokenize")
async def detokenize(body: DetokenizeRequest, request: Request) -> Response:
    """The text of token ids."""
    return await _understood(request, _detokenized, body)


@router.get("/version")
async def version() -> dict[str, str | None]:
    """Specguide's version; null where it is not installed but run from a checkout."""
    return {"version": installed_version()}


@router.get("/ping")
@router.get("/health")
@router.get("/ready")
async def health(request: Request) -> Response:
    """200 while requests are accepted; else 503 with Retry-After and the reason."""
    cause = _backend(request).engine.health.cause
    if cause is None:
        return JSONResponse({"status": "ok"})
    return ApiError.of(cause).response(lambda _: {"status": "unhealthy", "cause": str(cause)})


@router.get("/metrics", response_class=PlainTextResponse, responses=_TEXT)
async def metrics(request: Request) -> Response:
    """The service's figures, for Prometheus."""
    await _backend(request).engine.refresh_stats()
    return Response(generate_latest(request.app.state.registry), media_type=CONTENT_TYPE_LATEST)


@router.get("/load")
async def load(request: Request) -> Response:
    """How many requests run or wait, by the names of vLLM's servers: those of this process, where
    the engine is amid a long iteration. Where there is no engine, the answer of /health."""
    engine = _backend(request).engine
    await engine.refresh_stats()
    stats = engine.stats()
    if stats is None and not engine.health.is_healthy:
        return await health(request)
    known = engine.num_unfinished if stats is None else stats.num_running + stats.num_waiting
    return JSONResponse({"server_load": known})


def _model(request: Request, name: str) -> dict[str, Any]:
    backend = _backend(request)
    started_s = request.app.state.started_s
    most = backend.engine.max_model_len
    return {
        "id": name,
        "object": "model",
        "type": "model",
        "display_name": name,
        "created": started_s,
        "created_at": datetime.fromtimestamp(started_s, UTC).isoformat(),
        "owned_by": "specguide",
        "root": backend.config.model_name,
        "parent": backend.adapter(name) and backend.config.model_name,
        "max_model_len": most,
        "max_input_tokens": most,
        "max_tokens": most,
    }


def _backend(request: Request) -> Backend:
    backend: Backend = request.app.state.backend
    return backend


async def _understood(
    request: Request, understand: Callable[[Backend, B], dict[str, Any]], body: B
) -> Response:
    """An answer that is computed in a thread, since a schema or a prompt may be long."""
    num_bytes = len(await request.body())
    understood = _backend(request).understood(num_bytes, understand, body)
    return JSONResponse(await unless_left(request, understood), headers=ignored_header(body))


def _tokenized(backend: Backend, body: TokenizeRequest) -> dict[str, Any]:
    tokens = _tokens(backend, body)
    found: dict[str, Any] = {"tokens": tokens, "count": len(tokens)}
    found["max_model_len"] = backend.engine.max_model_len
    if body.return_token_strs:
        names = (backend.token_name(token)[0] for token in tokens)
        found["token_strs"] = [name.decode(errors="replace") for name in names]
    return found


def _tokens(backend: Backend, body: TokenizeRequest) -> list[int]:
    backend.check_model(body.model)
    if (body.prompt is None) == (body.messages is None):
        raise InvalidParams("give either prompt or messages", param="prompt")
    if body.prompt is not None:
        return backend.tokenizer.encode(body.prompt, body.add_special_tokens)
    images = backend.tokenizer.image_parts()
    conversation = Conversation.of(body, template_messages(body.messages or (), images))
    conversation = conversation._replace(images=images)
    token_ids = prompt_ids(
        backend,
        body,
        conversation,
        tools=body.tools,
        add_generation_prompt=body.add_generation_prompt,
    )
    return list(conversation.with_images(token_ids))


def _detokenized(backend: Backend, body: DetokenizeRequest) -> dict[str, Any]:
    backend.check_model(body.model)
    skips = body.skip_special_tokens
    return {"prompt": backend.text_of(body.tokens, "tokens", skip_special_tokens=skips)}
