"""Owns the request bodies of the API, each with the fields that are honoured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field

from specguide.errors import InvalidParams
from specguide.server.bodies import fields
from specguide.server.bodies.base_body import Body
from specguide.server.bodies.built_in_tools import is_run_elsewhere
from specguide.server.bodies.shared_fields import (
    ContinuedFields,
    NamedSchema,
    ResponseFormat,
    SamplingFields,
    TurnFields,
    Values,
)
from specguide.server.http.request_ids import RequestId


class StreamOptions(Body):
    """include_usage:          a last chunk says how many tokens there were
    continuous_usage_stats: with it, so does each chunk
    """

    beside = fields.STREAM_OPTIONS
    include_usage: bool = False
    continuous_usage_stats: bool = False


class EventOptions(Body):
    """Options of a stream of events, which always tells the usage."""

    beside = fields.STREAM_OPTIONS


class ToldFields(Body):
    """What chat and completions tell of their tokens.

    request_id:       what the answer's id ends with; this and what follows is vLLM's
    return_token_ids: tell the ids of prompts and outputs
    return_tokens_as_token_ids: of scored tokens, tell token_id:N in place of the text
    prompt_logprobs:  tell the scores of the prompt's tokens, with so many of the likeliest
    return_spans:     tell which tokens are of which field, see OutputSpan
    """

    request_id: RequestId | None = None
    return_token_ids: bool | None = False
    return_tokens_as_token_ids: bool | None = False
    prompt_logprobs: int | None = None
    return_spans: bool = False

    def check_whole(self, stream: bool | None) -> None:
        """Raises InvalidParams for what is not told in a stream."""
        if stream and self.prompt_logprobs is not None:
            raise InvalidParams(
                "prompt_logprobs cannot be streamed: leave prompt_logprobs or stream out",
                param="prompt_logprobs",
            )


class ChatRequest(ToldFields, ContinuedFields, TurnFields):
    """/v1/chat/completions.

    functions, function_call: the old names of tools and tool_choice
    echo: vLLM's: tell the last message again, where it is an assistant's
    return_prompt_text: vLLM's: tell what the chat template makes of the conversation
    """

    beside = fields.CHAT
    messages: Values[dict[str, Any]]
    n: int | None = 1
    stream_options: StreamOptions | None = None
    max_completion_tokens: int | None = Field(None, ge=1)
    max_tokens: int | None = None
    logprobs: bool | None = None
    echo: bool = False
    return_prompt_text: bool | None = False
    response_format: ResponseFormat | None = None
    functions: Values[dict[str, Any]] | None = None
    function_call: str | dict[str, Any] | None = None


class TextFormat(NamedSchema):
    """OpenAI's `text.format`."""

    type: Literal["text", "json_object", "json_schema"]


class TextConfig(Body):
    """OpenAI's `text`."""

    beside = fields.TEXT
    format: TextFormat | None = None


class ResponsesRequest(TurnFields):
    """/v1/responses. metadata and the fields after it are told again, and nothing else is done with
    them."""

    beside = fields.RESPONSES
    input: str | Values[dict[str, Any]]
    instructions: str | None = None
    text: TextConfig | None = None
    max_output_tokens: int | None = Field(None, ge=1)
    include: Values[str] | None = None
    stream_options: EventOptions | None = None
    metadata: dict[str, str] | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None

    def unknown_fields(self, place: str = "") -> Iterator[str]:
        """The unknown fields, with tools that are run elsewhere, which are never called here."""
        yield from super().unknown_fields(place)
        for index, tool in enumerate(self.tools or ()):
            if is_run_elsewhere(tool):
                yield f"{place}tools[{index}]"


_QUICK_FIELDS = frozenset(
    {
        *("model", "prompt", "stream", "stream_options", "max_tokens", "n", "seed", "ignore_eos"),
        *("temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty"),
        "request_id",
    }
)
"""Fields of completions that hold numbers and switches: a body of no others is read in no time."""


class CompletionRequest(ToldFields, SamplingFields):
    """/v1/completions."""

    beside = fields.COMPLETIONS
    prompt: str | Values[int] | Values[str] | Values[Values[int]]
    n: int | None = 1
    stream_options: StreamOptions | None = None
    max_tokens: int | None = 16
    logprobs: int | None = None
    echo: bool = False
    best_of: int | None = None
    add_special_tokens: bool = True
    response_format: ResponseFormat | None = None

    @property
    def is_quick(self) -> bool:
        """A prompt of token ids, and nothing that is read as a grammar or a text."""
        is_ids = isinstance(self.prompt, list) and isinstance(next(iter(self.prompt), 0), int)
        return is_ids and self.model_fields_set <= _QUICK_FIELDS


class TokenizeRequest(ContinuedFields):
    """/tokenize: a prompt or messages. return_token_strs: what each token spells, too"""

    beside = fields.TOKENIZE
    model: str | None = None
    prompt: str | None = None
    messages: Values[dict[str, Any]] | None = None
    tools: Values[dict[str, Any]] | None = None
    add_special_tokens: bool = True
    return_token_strs: bool | None = False


class DetokenizeRequest(Body):
    """/detokenize"""

    model: str | None = None
    tokens: Values[int]
