"""Owns the fields of request bodies that several endpoints have: OpenAI's, and those of vLLM and
SGLang for clients written for these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from specguide.errors import InvalidParams
from specguide.params import SamplingParams, Speculation
from specguide.params.rules import LEAST_TOP_P, MAX_LOGPROBS
from specguide.server.bodies import fields
from specguide.server.bodies.base_body import Body

T = TypeVar("T")
Values = Annotated[list[T], Field(fail_fast=True)]
"""A list that is validated up to its first wrong value: a long list may have as many errors as
values."""


class StructuredOutputs(Body):
    """The guide in vLLM's form; only one of the first six fields may be given.

    disable_additional_properties: objects of a JSON schema have no properties except those that it
                                   names, unless it says otherwise
    """

    beside = fields.STRUCTURED_OUTPUTS
    json_: dict[str, Any] | bool | str | None = Field(None, alias="json")
    regex: str | None = None
    choice: Values[str] | None = None
    grammar: str | None = None
    json_object: bool | None = None
    structural_tag: dict[str, Any] | str | None = None
    disable_additional_properties: bool | None = None


class SpeculationFields(Body):
    """How the request uses the server's drafts, see Speculation."""

    num_draft_tokens: int | None = None
    num_forced_tokens: int | None = None
    guided_drafts: bool | None = None


class GeneratingBody(Body):
    """The fields of every generating request, in any vendor's API. model: None or "" is the served
    one"""

    model: str | None = None
    stream: bool | None = False


class SamplingFields(GeneratingBody):
    """The fields that all of OpenAI's generating endpoints have in common."""

    temperature: float | None = 1.0
    top_p: float | None = 1.0
    seed: int | None = None
    stop: str | Values[str] | None = None
    logit_bias: dict[str, float] | None = None
    presence_penalty: float | None = 0.0
    frequency_penalty: float | None = 0.0
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
    skip_special_tokens: bool = True
    priority: int = 0
    structured_outputs: StructuredOutputs | None = None
    guided_json: dict[str, Any] | bool | str | None = None
    guided_regex: str | None = None
    guided_choice: Values[str] | None = None
    guided_grammar: str | None = None
    # SGLang's
    json_schema: dict[str, Any] | str | None = None
    regex: str | None = None
    ebnf: str | None = None
    # this server's own
    speculation: SpeculationFields | None = None
    allow_truncation: bool = False
    faithful: bool = False
    key_order: Literal["schema", "any"] | None = None

    def sampling(self, defaults: Mapping[str, Any], **values: Any) -> SamplingParams:
        """The sampling parameters, including `values`. Raises InvalidParams.

        defaults: for fields that are left out, where they are not OpenAI's; a faithful request has
                  none
        """
        defaults = {} if self.faithful else defaults
        given = {name: getattr(self, name) for name in _SAMPLING}
        given |= {
            name: value for name, value in defaults.items() if name not in self.model_fields_set
        }
        given["stop"] = _stop_strings(self.stop)
        given["speculation"] = self.speculation and Speculation(**dict(self.speculation))
        return params_of(given | values)


def params_of(values: Mapping[str, Any]) -> SamplingParams:
    """SamplingParams of the values that are not None. A top_p of 0 keeps only the likeliest token,
    as in other servers. Raises InvalidParams."""
    stated = {name: value for name, value in values.items() if value is not None}
    if stated.get("top_p") == 0:
        stated["top_p"] = LEAST_TOP_P
    return SamplingParams.from_dict(stated)


_SAMPLING = (
    "temperature",
    "top_p",
    "seed",
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
    "skip_special_tokens",
    "allow_truncation",
    "faithful",
)


def _stop_strings(stop: str | list[str] | None) -> list[str]:
    """The stop strings without empty ones, which stop nothing."""
    return [one for one in ([stop] if isinstance(stop, str) else stop or ()) if one]


class CutFields(Body):
    """How a long prompt is cut, as in vLLM.

    truncate_prompt_tokens: most tokens of a prompt that are kept; -1: as many as leave room for
                            max_tokens
    truncation_side:        where tokens are dropped, by default at the left
    """

    truncate_prompt_tokens: int | None = Field(default=None, ge=-1)
    truncation_side: Literal["left", "right"] | None = None

    def cut(self, token_ids: list[int], room: int) -> list[int]:
        """The tokens of a prompt that are kept. room: how many leave room for the answer.

        Raises InvalidParams where none would be kept.
        """
        most = self.truncate_prompt_tokens
        if most is None:
            return token_ids
        if most == 0:
            raise InvalidParams(
                "truncate_prompt_tokens must be an integer ≥ 1, or -1 for as many tokens as there "
                "is room for, found 0",
                param="truncate_prompt_tokens",
            )
        most = max(1, room) if most < 0 else most
        return token_ids[:most] if self.truncation_side == "right" else token_ids[-most:]


class NamedSchema(Body):
    """OpenAI's `response_format.json_schema`."""

    name: str | None = None
    description: str | None = None
    schema_: dict[str, Any] | None = Field(None, alias="schema")
    strict: bool | None = None


class ResponseFormat(Body):
    """OpenAI's `response_format`, with further types of vLLM and SGLang.

    schema: of type json_object, which has one in other engines
    structures, triggers, at_least_one: of type structural_tag, in its older form
    """

    type: Literal["text", "json_object", "json_schema", "regex", "grammar", "structural_tag"]
    json_schema: NamedSchema | None = None
    regex: str | None = None
    pattern: str | None = None
    grammar: str | None = None
    format: dict[str, Any] | None = None
    schema_: dict[str, Any] | None = Field(None, alias="schema")
    structures: Values[dict[str, Any]] | None = None
    triggers: Values[str] | None = None
    at_least_one: bool | None = None


class TemplateFields(Body):
    """How a conversation becomes a prompt.

    chat_template_kwargs: variables of the template; those that it does not read are left out
    chat_template:        a template to use instead of the model's, where the server allows that
    allow_special_tokens: special tokens that the messages spell become these tokens, not text;
                          None: as the server is configured
    """

    chat_template_kwargs: dict[str, Any] | None = None
    chat_template: str | None = None
    allow_special_tokens: bool | None = None


class ContinuedFields(TemplateFields):
    """How the answer to a conversation begins, as in vLLM.

    add_generation_prompt:  the template begins a new answer
    continue_final_message: the last message is the beginning of the answer
    """

    add_generation_prompt: bool = True
    continue_final_message: bool = False


class ReasoningConfig(Body):
    """OpenAI's `reasoning`. There are no summaries: the reasoning is returned as it is."""

    beside = fields.REASONING
    effort: str | None = None
    summary: str | None = None
    generate_summary: str | None = None
    context: str | None = None


class Thinking(Body):
    """Whether the model reasons, and how long. display: has no effect, reasoning is always
    returned"""

    type: Literal["enabled", "adaptive", "disabled"]
    budget_tokens: int | None = Field(None, ge=1)
    display: str | None = None


class TurnFields(TemplateFields, SamplingFields):
    """The fields that the endpoints for conversations have in common.

    reasoning:             OpenAI's field of responses; SGLang and others have it in chat, too
    reasoning_effort:      OpenAI's field of chat; "none": the model does not reason before it
                           answers
    max_reasoning_tokens:  number of tokens after which reasoning has to end
    thinking_token_budget: the same, by vLLM's name; -1: no bound
    thinking_budget:       the same, by Qwen's name; thinking.budget_tokens: by Anthropic's
    enable_thinking, thinking: Qwen's and Anthropic's switch, where no effort is given
    include_reasoning:     return the reasoning; else ids and scores of its tokens are left out, too
    """

    top_logprobs: int | None = Field(None, ge=0, le=MAX_LOGPROBS)
    tools: Values[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = True
    reasoning: ReasoningConfig | None = None
    reasoning_effort: str | None = None
    max_reasoning_tokens: int | None = Field(None, ge=0)
    thinking_token_budget: int | None = Field(None, ge=-1)
    thinking_budget: int | None = Field(None, ge=0)
    thinking: Thinking | None = None
    enable_thinking: bool | None = None
    include_reasoning: bool = True

    def reasoning_bound(self) -> int | None:
        """Number of tokens after which reasoning has to end; None: no bound."""
        budget = None if self.thinking is None else self.thinking.budget_tokens
        bounds = (self.max_reasoning_tokens, self.thinking_token_budget, self.thinking_budget)
        bound = next((one for one in (*bounds, budget) if one is not None), None)
        return None if bound == -1 else bound

    def effort(self) -> str | None:
        """How much the model should reason before it answers; None: the model's default."""
        said = self._said_effort()
        effort = self.reasoning_effort if said is None else said
        return self._switched() if effort is None else effort

    def effort_field(self) -> str:
        """The field that has the effort."""
        return "reasoning_effort" if self._said_effort() is None else "reasoning.effort"

    def _switched(self) -> str | None:
        """The effort that a switch stands for; None where it is left to the model."""
        kind = None if self.thinking is None else self.thinking.type
        if self.enable_thinking is False or kind == "disabled":
            return "none"
        return "medium" if self.enable_thinking or kind == "enabled" else None

    def _said_effort(self) -> str | None:
        return None if self.reasoning is None else self.reasoning.effort
