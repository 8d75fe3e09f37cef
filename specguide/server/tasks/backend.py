"""Owns what all endpoints share: access to the engine and its tokens, parsing in threads, and
waiting for work whose client may leave."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import Any, TypeVar

from fastapi import Request

from specguide.config import GuideConfig
from specguide.engine import ServedEngine
from specguide.errors import InvalidParams, PromptTooLong
from specguide.guided.reading import SpelledTokens
from specguide.guided.reasoning_formats import ReasoningFormat, choose_reasoning_format
from specguide.guided.tools import ToolFormat, choose_tool_format
from specguide.server.bodies.base_body import Body
from specguide.server.bodies.ignored import UnknownFields
from specguide.server.bodies.sampling_defaults import sampling_defaults
from specguide.server.config import ServerConfig
from specguide.server.http.errors import ApiError
from specguide.server.tasks.call_form import CallForm, call_form

T = TypeVar("T")
B = TypeVar("B", bound=Body)
_LOOK_S = 0.2
_FEW_BYTES, _MANY_BYTES = 1 << 13, 1 << 16
_MOST_TEMPLATES = 2


class Backend:
    """An engine with the server's configuration."""

    def __init__(self, engine: ServedEngine, config: ServerConfig) -> None:
        self.engine, self.config = engine, config
        self.tokenizer = engine.tokenizer
        self.sampling_defaults = sampling_defaults(config, engine.config.model)
        self._unknown_fields = UnknownFields(config.strict_fields)
        self._lane = asyncio.Semaphore()
        """Lets one large body be parsed at a time."""
        self._template_lane = asyncio.Semaphore(_MOST_TEMPLATES)
        """Limits the clients' templates that are rendered at once; their threads wait for them."""

    @property
    def limits(self) -> GuideConfig:
        """The limits of guides."""
        return self.engine.config.guide or GuideConfig()

    @cached_property
    def max_prompt_chars(self) -> int:
        """Most characters of a prompt that fits into the context."""
        return self.engine.max_model_len * max(map(len, self._spelled))

    @cached_property
    def _spelled(self) -> Sequence[bytes]:
        """The bytes of each token; empty for special tokens."""
        return self.tokenizer.vocabulary(self.engine.vocab_size).token_bytes

    @cached_property
    def spelled(self) -> SpelledTokens:
        """The text of each token."""
        return SpelledTokens(self._spelled, self.tokenizer.eos_token_ids)

    @cached_property
    def names(self) -> dict[int, bytes]:
        """The names of the special tokens."""
        vocabulary = self.tokenizer.vocabulary(self.engine.vocab_size)
        return vocabulary.names | {
            token: self.tokenizer.decode([token], skip_special_tokens=False).encode()
            for token in vocabulary.eos_token_ids
        }

    @cached_property
    def spelled_with_ends(self) -> SpelledTokens:
        """The text of each token; end tokens are read like other special tokens."""
        return SpelledTokens(self._spelled, ())

    def check_prompt(self, num_chars: int, param: str) -> None:
        """Raises PromptTooLong for a text that fits into the context in no tokenization, since
        encoding it would take long."""
        if num_chars > self.max_prompt_chars:
            raise self._too_long(f"{num_chars} characters, which cannot fit", param)

    def check_prompt_ids(
        self, prompt_ids: Sequence[int], param: str, details: Callable[[], str] = str
    ) -> None:
        """Raises PromptTooLong where the tokens leave no room for an answer. details: adds to their
        number in the message"""
        if len(prompt_ids) >= self.engine.max_model_len:
            raise self._too_long(f"{len(prompt_ids)} tokens{details()}", param)

    def _too_long(self, size: str, param: str) -> PromptTooLong:
        """The error, in words by which clients recognize it."""
        return PromptTooLong(
            f"this model's maximum context length is {self.engine.max_model_len} tokens, output "
            f"included, and the prompt has {size}; make it shorter",
            param=param,
        )

    def check_samples(self, num_prompts: int, num_samples: int) -> None:
        """Raises InvalidParams for more answers than there is ever room for.

        num_samples: per prompt
        """
        most = self.engine.max_unfinished
        if num_prompts * num_samples > most:
            raise InvalidParams(
                f"n = {num_samples}"
                + (f" for each of {num_prompts} prompts" if num_prompts > 1 else "")
                + f" is more than the {most} answers that this server has room for at once; ask "
                "for fewer",
                param="n" if num_samples > 1 else "prompt",
            )

    @cached_property
    def tool_format(self) -> ToolFormat:
        """The format of tool calls. Raises InvalidParams where it is unknown."""
        return choose_tool_format(self.config.tool_format, self.tokenizer.chat_template)

    @cached_property
    def known_tool_format(self) -> ToolFormat | None:
        """The format of tool calls; None where it is unknown."""
        try:
            return self.tool_format
        except InvalidParams:
            return None

    @cached_property
    def call_form(self) -> CallForm:
        """How calls are given to the chat template, whether or not their format is known."""
        return call_form(self.tokenizer, self.known_tool_format)

    @cached_property
    def reasoning_format(self) -> ReasoningFormat | None:
        """The format of the reasoning; None where the model does not reason. Raises InvalidParams
        for an unknown name."""
        return choose_reasoning_format(self.config.reasoning_format, self.tokenizer.chat_template)

    @staticmethod
    def are_few(num_bytes: int) -> bool:
        """Whether parsing this many bytes takes less time than handing them to a thread."""
        return num_bytes <= _FEW_BYTES

    async def aside(self, num_bytes: int, work: Callable[..., T], *args: Any) -> T:
        """Run `work` in a thread. Large bodies are processed one after another: they hold the GIL,
        and would delay all small ones.

        Raises what `work` does, and ApiError where a body is nested too deeply for it.
        """
        try:
            async with nullcontext() if num_bytes <= _MANY_BYTES else self._lane:
                return await asyncio.to_thread(work, *args)
        except RecursionError:
            raise ApiError(400, "the body is nested too deeply") from None

    async def understood(self, num_bytes: int, understand: Callable[[Backend, B], T], body: B) -> T:
        """The result of `understand` for a request's body, computed in a thread unless it is quick.
        Raises what `understand` does, ApiError as `aside`, and InvalidParams for unknown fields
        where they are refused."""
        self._unknown_fields.check(body)
        if body.is_quick and self.are_few(num_bytes):
            return understand(self, body)
        async with self._template_lane if getattr(body, "chat_template", None) else nullcontext():
            return await self.aside(num_bytes, understand, self, body)

    def text_of(
        self, token_ids: Sequence[int], param: str, *, skip_special_tokens: bool = False
    ) -> str:
        """The text of token ids. Raises InvalidParams for an id outside the vocabulary.

        skip_special_tokens: leave them out; else they are written by their names
        """
        size = self.engine.vocab_size
        bad = next((token for token in token_ids if not 0 <= token < size), None)
        if bad is not None:
            raise InvalidParams(
                f"token id {bad} must be from 0 to {size - 1} with this model", param=param
            )
        return self.tokenizer.decode(token_ids, skip_special_tokens)

    def special_token(self, text: str) -> int | None:
        """The id of a special token; None for an ordinary token and for an unknown text."""
        vocabulary = self.tokenizer.vocabulary(self.engine.vocab_size)
        return vocabulary.special_id(self.tokenizer.token_id(text))

    def token_name(self, token: int) -> tuple[bytes, bool]:
        """A token's text, including its leading space, or the name of a special token; and whether
        it is special."""
        spelled = self._spelled[token]
        if spelled:
            return spelled, False
        return self.tokenizer.decode([token], skip_special_tokens=False).encode(), True

    def check_model(self, name: str | None) -> str:
        """The model's name for answers, given the requested one, which may be missing, an alias or
        an adapter. Raises ApiError for another model's name."""
        if name and name not in self.model_names:
            raise ApiError(
                404,
                f"the model {name!r} does not exist; this server has "
                f"{', '.join(map(repr, self.model_names))}",
                param="model",
                code="model_not_found",
            )
        return self.adapter(name) or self.config.model_name

    def adapter(self, name: str | None) -> str | None:
        """The LoRA adapter that is asked for by a model's name; None: the model itself."""
        return name if name in self.engine.config.adapters else None

    @property
    def model_names(self) -> tuple[str, ...]:
        """All names that clients may give as the model: its own, and those of its adapters."""
        return (*self.config.model_names, *self.engine.config.adapters)


async def unless_left(request: Request, work: Awaitable[T]) -> T:
    """The result of `work`, which is cancelled when the client leaves; ApiError is then raised,
    though nobody reads it."""
    task = asyncio.ensure_future(work)
    try:
        while not task.done():
            await asyncio.wait([task], timeout=_LOOK_S)
            if not task.done() and await request.is_disconnected():
                raise ApiError.client_left()
        return task.result()
    finally:
        task.cancel()
