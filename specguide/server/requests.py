"""Owns the request bodies of the API: OpenAI's fields, and those that vLLM's users know. Unknown
ones are refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from specguide.params import MAX_LOGPROBS, SamplingParams, Speculation

T = TypeVar("T")
Values = Annotated[list[T], Field(fail_fast=True)]
"""A list of which only the first wrong value is told: a long one may have as many as it has
values."""


class Body(BaseModel):
    """A body without unknown fields."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _knows_its_fields(cls, values: Any) -> Any:
        known = {field.alias or name for name, field in cls.model_fields.items()}
        unknown = (
            next((name for name in values if name not in known), None)
            if isinstance(values, dict)
            else None
        )
        if unknown is not None:
            name = unknown.encode(errors="replace").decode()  # pydantic takes Unicode text alone
            raise PydanticCustomError("unknown_field", "unknown field {name}", {"name": name})
        return values


class StreamOptions(Body):
    """include_usage: a last chunk says how many tokens there were"""

    include_usage: bool = False


class EventOptions(Body):
    """include_obfuscation: random characters beside each event, of which there are none"""

    include_obfuscation: Literal[False] | None = None


class StructuredOutputs(Body):
    """What an output must match, as in vLLM; one of them."""

    json_: dict[str, Any] | bool | str | None = Field(None, alias="json")
    regex: str | None = None
    choice: Values[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    structural_tag: dict[str, Any] | str | None = None


class SpeculationFields(Body):
    """What the request takes of the server's drafts, see Speculation."""

    num_draft_tokens: int | None = None
    num_forced_tokens: int | None = None
    guided_drafts: bool | None = None


class GeneratingBody(Body):
    """What asks for an answer, whoever's API it is."""

    model: str
    stream: bool | None = False


class SamplingFields(GeneratingBody):
    """What all of OpenAI's endpoints that generate have in common."""

    temperature: float | None = 1.0
    top_p: float | None = 1.0
    seed: int | None = None
    stop: str | Values[str] | None = None
    logit_bias: dict[str, float] | None = None
    presence_penalty: float | None = 0.0
    frequency_penalty: float | None = 0.0
    user: str | None = None
    # vLLM's
    top_k: int | None = 0
    min_p: float | None = 0.0
    repetition_penalty: float | None = 1.0
    min_tokens: int | None = 0
    ignore_eos: bool = False
    stop_token_ids: Values[int] | None = None
    bad_words: Values[str] | None = None
    allowed_token_ids: Values[int] | None = None
    include_stop_str_in_output: bool = False
    priority: int = 0
    structured_outputs: StructuredOutputs | None = None
    guided_json: dict[str, Any] | bool | str | None = None
    guided_regex: str | None = None
    guided_choice: Values[str] | None = None
    guided_grammar: str | None = None
    # this server's own
    speculation: SpeculationFields | None = None

    def sampling(self, **values: Any) -> SamplingParams:
        """With `values` beside. Raises InvalidParams."""
        given = {
            name: getattr(self, name)
            for name in (
                "temperature",
                "top_p",
                "seed",
                "stop",
                "logit_bias",
                "presence_penalty",
                "frequency_penalty",
                "top_k",
                "min_p",
                "repetition_penalty",
                "min_tokens",
                "ignore_eos",
                "stop_token_ids",
                "bad_words",
                "allowed_token_ids",
                "include_stop_str_in_output",
            )
        }
        given["speculation"] = self.speculation and Speculation(**dict(self.speculation))
        return SamplingParams.from_dict(
            {name: value for name, value in (given | values).items() if value is not None}
        )


class ResponseFormat(Body):
    """OpenAI's `response_format`, and vLLM's and SGLang's further types of it."""

    type: Literal["text", "json_object", "json_schema", "regex", "grammar", "structural_tag"]
    json_schema: dict[str, Any] | None = None
    regex: str | None = None
    pattern: str | None = None
    grammar: str | None = None
    format: dict[str, Any] | None = None


class TemplateFields(Body):
    """What is said of the way from a conversation to a prompt.

    chat_template_kwargs: variables of the template; those that it does not read are left out
    chat_template:        to take instead of the model's, where the server lets clients send one
    allow_special_tokens: special tokens that the messages spell are what they are, not text; None:
                          as the server has it
    """

    chat_template_kwargs: dict[str, Any] | None = None
    chat_template: str | None = None
    allow_special_tokens: bool | None = None


Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]
"""OpenAI's `reasoning_effort`."""


class TurnFields(TemplateFields, SamplingFields):
    """What the endpoints that answer a conversation have in common.

    max_reasoning_tokens: after so many tokens of reasoning it has to end
    """

    top_logprobs: int | None = Field(None, ge=0, le=MAX_LOGPROBS)
    tools: Values[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = True
    metadata: dict[str, str] | None = None
    reasoning_effort: Effort | None = None
    max_reasoning_tokens: int | None = Field(None, ge=0)

    def effort(self) -> str | None:
        """How much the model is to think before it answers; None: as it does by itself."""
        return self.reasoning_effort


class ChatRequest(TurnFields):
    """/v1/chat/completions"""

    messages: Values[dict[str, Any]]
    n: int | None = 1
    stream_options: StreamOptions | None = None
    max_completion_tokens: int | None = Field(None, ge=1)
    max_tokens: int | None = None
    logprobs: bool | None = None
    response_format: ResponseFormat | None = None


class TextFormat(Body):
    """OpenAI's `text.format`."""

    type: Literal["text", "json_object", "json_schema"]
    name: str | None = None
    description: str | None = None
    schema_: dict[str, Any] | None = Field(None, alias="schema")
    strict: bool | None = None


class TextConfig(Body):
    """OpenAI's `text`."""

    format: TextFormat | None = None
    verbosity: Literal["medium"] | None = None


class ReasoningConfig(Body):
    """OpenAI's `reasoning`. There are no summaries: what the model thinks is told as it is."""

    effort: Effort | None = None
    summary: str | None = None
    generate_summary: str | None = None
    context: str | None = None


class ResponsesRequest(TurnFields):
    """/v1/responses. What only a server that stores answers can do is there to be refused in words
    of its own."""

    input: str | Values[dict[str, Any]]
    instructions: str | None = None
    text: TextConfig | None = None
    max_output_tokens: int | None = Field(None, ge=1)
    include: Values[str] | None = None
    stream_options: EventOptions | None = None
    store: bool | None = None
    background: bool | None = None
    conversation: str | dict[str, Any] | None = None
    previous_response_id: str | None = None
    prompt: dict[str, Any] | None = None
    reasoning: ReasoningConfig | None = None
    truncation: str | None = None
    service_tier: Literal["auto", "default"] | None = None
    prompt_cache_key: str | None = None
    safety_identifier: str | None = None

    def effort(self) -> str | None:
        """OpenAI has it in `reasoning`."""
        return super().effort() if self.reasoning is None else self.reasoning.effort


class CompletionRequest(SamplingFields):
    """/v1/completions"""

    prompt: str | Values[int] | Values[str] | Values[Values[int]]
    n: int | None = 1
    stream_options: StreamOptions | None = None
    max_tokens: int | None = 16
    logprobs: int | None = None
    echo: bool = False
    suffix: str | None = None
    best_of: int | None = None


class TokenizeRequest(TemplateFields):
    """/tokenize: a prompt or messages. return_token_strs: what each token spells, too"""

    model: str | None = None
    prompt: str | None = None
    messages: Values[dict[str, Any]] | None = None
    tools: Values[dict[str, Any]] | None = None
    add_special_tokens: bool = True
    add_generation_prompt: bool = True
    return_token_strs: bool | None = False


class DetokenizeRequest(Body):
    """/detokenize"""

    model: str | None = None
    tokens: Values[int]
