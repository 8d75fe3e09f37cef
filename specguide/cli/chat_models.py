"""Owns the models that answer a chat: one in this process, or a server's. Both give typed
events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any, Protocol

from specguide.config import EngineConfig
from specguide.config.adapters import adapter_folders, check_adapter
from specguide.errors import InvalidParams, RequestError
from specguide.host.release import extra
from specguide.server.config import ServerConfig, model_name
from specguide.server.tasks.custom_tools import CALLED_WITH
from specguide.server.tasks.events import Arguments, CallBegin, End, Event, Text


class ChatModel(Protocol):
    """Answers requests to /v1/chat/completions. name: the model's name in requests"""

    name: str

    def events(self, body: dict[str, Any]) -> AsyncGenerator[Event, None]:
        """The answer's events, as they come. Raises SpecguideError."""

    async def close(self) -> None:
        """Release the model."""


class LocalModel:
    """A model in this process, behind the API server's reading of requests."""

    def __init__(self, config: EngineConfig, lora: str | None = None) -> None:
        """lora: the adapter that answers; None: none. Raises InvalidParams where there is no such
        adapter."""
        check_adapter(lora, adapter_folders(config.lora_modules))
        from specguide.engine import AsyncEngine, Engine  # brings torch in; --help stays quick
        from specguide.server.tasks.backend import Backend

        self.name = lora or model_name(config.model)
        self._engine = AsyncEngine(Engine(config))
        self._backend = Backend(self._engine, ServerConfig(model_name(config.model)))

    async def events(self, body: dict[str, Any]) -> AsyncGenerator[Event, None]:
        """See ChatModel."""
        from specguide.server.apis.chat import parse
        from specguide.server.bodies.requests import ChatRequest
        from specguide.server.http.errors import ApiError
        from specguide.server.running.run import begun, read

        task = parse(self._backend, ChatRequest.model_validate(body))
        stream = self._engine.generate(task.prompts[0], task.params)
        try:
            async for event in read(self._backend, task, 0, await begun(stream, task)):
                yield event
        except ApiError as error:
            raise RequestError(str(error)) from error
        finally:
            await stream.aclose()

    async def close(self) -> None:
        """See ChatModel."""
        await self._engine.close(0)


class RemoteModel:
    """A server's model, through OpenAI's client. Raises InvalidParams where the client is not
    installed."""

    def __init__(self, url: str, model: Path | None, api_key: str) -> None:
        with extra("chat", "--url", "url"):
            import openai
        self._failure = openai.OpenAIError
        try:
            self.name = str(
                model or openai.OpenAI(base_url=url, api_key=api_key).models.list().data[0].id
            )
        except openai.AuthenticationError as error:
            raise InvalidParams(f"the server at {url} wants another --api-key: {error}") from error
        except (openai.OpenAIError, IndexError) as error:
            raise InvalidParams(
                f"no server of the OpenAI API answers at {url}: {error}; is it running, and does "
                "the URL end in /v1?",
                param="url",
            ) from error
        self._client = openai.AsyncOpenAI(base_url=url, api_key=api_key)

    async def events(self, body: dict[str, Any]) -> AsyncGenerator[Event, None]:
        """See ChatModel."""
        try:
            async with await self._client.chat.completions.create(**body, stream=True) as stream:
                async for chunk in stream:
                    for choice in chunk.choices:
                        for event in _events(choice.model_dump()):
                            yield event
        except self._failure as error:
            raise RequestError(str(error)) from error

    async def close(self) -> None:
        """See ChatModel."""
        await self._client.close()


def _events(choice: dict[str, Any]) -> Iterator[Event]:
    """The events of a chunk's choice."""
    delta = choice["delta"]
    if delta.get("content"):
        yield Text(delta["content"])
    for piece in delta.get("tool_calls") or ():
        for kind, written in CALLED_WITH.items():
            called = piece.get(kind) or {}
            if called.get("name"):
                yield CallBegin(piece["index"], called["name"], kind=kind)
            if called.get(written):
                yield Arguments(piece["index"], called[written])
    if choice["finish_reason"]:
        yield End("length" if choice["finish_reason"] == "length" else "stop")
