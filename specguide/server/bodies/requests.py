"""Owns the request bodies of OpenAI's APIs, each with the fields that are honoured."""

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
    CutFields,
    NamedSchema,
    ResponseFormat,
    SamplingFields,
    TurnFields,
    Values,
)
from specguide.server.http.request_ids import RequestId


class StreamOptions(Body):
    """include_usage:          a last chunk has the number of tokens
    continuous_usage_stats: with it, each chunk has that number too"""

    beside = fields.STREAM_OPTIONS
    include_usage: bool = False
    continuous_usage_stats: bool = False


class EventOptions(Body):
    """Options of a stream of events, which always has the usage."""

    beside = fields.STREAM_OPTIONS


class ReturnedFields(Body):
    """Details of their tokens that chat and completions can return.

    request_id:       the end of the answer's id; this and the following fields are vLLM's
    return_token_ids: return the ids of prompts and outputs
    return_tokens_as_token_ids: write scored tokens as token_id:N instead of their text
    prompt_logprobs:  return the scores of the prompt's tokens, with this many of the likeliest
    return_spans:     return the field to which each token belongs, see OutputSpan
    """

    request_id: RequestId | None = None
    return_token_ids: bool | None = False
    return_tokens_as_token_ids: bool | None = False
    prompt_logprobs: int | None = None
    return_spans: bool = False

    def check_whole(self, stream: bool | None) -> None:
        """Raises InvalidParams for a field that a stream cannot honour."""
        if stream and self.prompt_logprobs is not None:
            raise InvalidParams(
                "prompt_logprobs cannot be streamed: leave prompt_logprobs or stream out",
                param="prompt_logprobs",
            )


class ChatRequest(ReturnedFields, CutFields, ContinuedFields, TurnFields):
    """/v1/chat/completions.

    functions, function_call: the old names of tools and tool_choice
    echo: vLLM's: repeat the last message, if it is the assistant's
    return_prompt_text: vLLM's: return the text that the chat template makes of the conversation
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
    """/v1/responses. metadata and the fields after it are repeated in the answer, and not used
    otherwise."""

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
        """The unknown fields, and tools that OpenAI runs itself, which are never called here."""
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
"""Fields of completions that hold numbers and switches: a body with no others is parsed in almost
no time."""


_FEW_TOKENS = 16
"""The most tokens of a completion that says nothing of it, as in OpenAI's API."""


class CompletionRequest(ReturnedFields, CutFields, SamplingFields):
    """/v1/completions."""

    beside = fields.COMPLETIONS
    prompt: str | Values[int] | Values[str] | Values[Values[int]]
    n: int | None = 1
    stream_options: StreamOptions | None = None
    max_tokens: int | None = _FEW_TOKENS
    max_completion_tokens: int | None = Field(None, ge=1)
    logprobs: int | None = None
    echo: bool = False
    best_of: int | None = None
    add_special_tokens: bool = True
    response_format: ResponseFormat | None = None

    @property
    def most_tokens(self) -> int:
        """The smaller one of the two limits, where both are given."""
        given = [self.max_tokens if "max_tokens" in self.model_fields_set else None]
        given.append(self.max_completion_tokens)
        return min((most for most in given if most is not None), default=_FEW_TOKENS)

    @property
    def is_quick(self) -> bool:
        """A body with a prompt of token ids, and without anything that is read as a grammar or a
        text."""
        is_ids = isinstance(self.prompt, list) and isinstance(next(iter(self.prompt), 0), int)
        return is_ids and self.model_fields_set <= _QUICK_FIELDS


class TokenizeRequest(ContinuedFields):
    """/tokenize: a prompt or messages. return_token_strs: return each token's text, too"""

    beside = fields.TOKENIZE
    model: str | None = None
    prompt: str | None = None
    messages: Values[dict[str, Any]] | None = None
    tools: Values[dict[str, Any]] | None = None
    add_special_tokens: bool = True
    return_token_strs: bool | None = False


class DetokenizeRequest(Body):
    """/detokenize. skip_special_tokens: leave special tokens out, else they are named"""

    model: str | None = None
    tokens: Values[int]
    skip_special_tokens: bool = False
