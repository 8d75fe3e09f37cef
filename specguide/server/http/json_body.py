"""Owns the parsing of bodies: in a thread unless they are short, with their values counted first,
and refused where they are too many."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect

from specguide.errors import InvalidParams
from specguide.server.config import ServerConfig
from specguide.server.http.errors import ApiError, Refusal

_BOUNDS = {
    "tools": "max_tools",
    "functions": "max_tools",
    "messages": "max_messages",
    "input": "max_messages",
    "stop": "max_stop_strings",
    "stop_sequences": "max_stop_strings",
    "bad_words": "max_stop_strings",
    "stop_token_ids": "max_entries",
    "logit_bias": "max_entries",
    "metadata": "max_entries",
}
"""Fields that hold several values, each with the limit of their number."""


class BodyRoute(APIRoute):
    """A route that checks a body against the server's limits before it is validated."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def counted(request: Request) -> Response:
            return await handle(CountedRequest(request.scope, request.receive))

        return counted


class CountedRequest(Request):
    """A request whose JSON is parsed in a thread, unless it is short. Raises Refusal, which names
    the field."""

    async def body(self) -> bytes:
        """Raises Refusal where the client leaves before the body's end."""
        try:
            return await super().body()
        except ClientDisconnect:
            raise Refusal(ApiError.client_left()) from None

    async def json(self) -> Any:
        backend = self.app.state.backend
        body = await self.body()
        try:
            if backend.are_few(len(body)):
                return _parsed(body, backend.config)
            return await backend.aside(len(body), _parsed, body, backend.config)
        except InvalidParams as error:
            raise Refusal(ApiError.of(error)) from None


def _parsed(body: bytes, config: ServerConfig) -> Any:
    # parsing holds the GIL
    if body.count(b",") + body.count(b'"') // 2 > config.max_body_values:
        raise InvalidParams(
            f"the body has more than {config.max_body_values} values; make it smaller"
        )
    try:
        values = json.loads(body)
    except RecursionError:
        raise InvalidParams("the body is nested too deeply") from None
    except json.JSONDecodeError:
        raise  # the caller's answer tells the position
    except ValueError as error:  # not UTF-8, or a number of thousands of digits
        raise InvalidParams(f"the body is not JSON: {error}") from None
    if isinstance(values, dict):
        check_counts(values, config)
    return values


def check_counts(values: dict[str, Any], config: ServerConfig) -> None:
    """Raises InvalidParams for a field with more values than the server takes."""
    for name, bound in _BOUNDS.items():
        value, most = values.get(name), getattr(config, bound)
        if isinstance(value, (list, dict)) and len(value) > most:
            raise InvalidParams(
                f"{name} may have at most {most} entries, found {len(value)}; {_raised(bound)}",
                param=name,
            )
    most = config.max_stop_chars
    for name in ("stop", "stop_sequences", "bad_words"):
        longest = _longest_text(values.get(name))
        if longest > most:
            raise InvalidParams(
                f"{name} may have at most {most} characters each, found {longest}; "
                + _raised("max_stop_chars"),
                param=name,
            )
    _check_samples(values.get("prompt"), values.get("n"), config.max_samples)


def _raised(bound: str) -> str:
    return f"send fewer, or start the server with a larger --{bound.replace('_', '-')}"


def _longest_text(words: Any) -> int:
    """Characters of a text, or of the longest text in a list; 0 where there is none."""
    listed = words if isinstance(words, list) else [words]
    return max((len(word) for word in listed if isinstance(word, str)), default=0)


def _check_samples(prompt: Any, n: Any, most: int) -> None:
    num_prompts = (
        len(prompt) if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int) else 1
    )
    num_samples = num_prompts * (n if isinstance(n, (int, float)) else 1)
    if num_prompts > 1 and num_samples > most:
        raise InvalidParams(
            f"a request may have at most {most} answers, found {num_prompts} prompts and "
            f"{num_samples} answers; {_raised('max_samples')}",
            param="prompt",
        )
    if num_samples > most:
        raise InvalidParams(f"n must be an integer from 1 to {most}, found {n}", param="n")
