"""Owns the known fields that no body honours: those that change nothing here, and those that are
refused since they would.

All other fields are unknown: they are accepted and reported to the client, or refused with
`strict_fields`.

A null field counts as left out. The honoured fields are those of the bodies in `requests`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class NoEffect:
    """Accepted with any value, since the output cannot depend on it. why: the reason, in words"""

    why: str


@dataclass(frozen=True)
class Refused:
    """Refused by its name. why: the reason, and what to do; unless: values that change nothing"""

    why: str
    unless: tuple[Any, ...] = ()

    def takes(self, value: Any) -> bool:
        """Whether a value changes nothing, and is accepted."""
        return any(type(value) is type(one) and value == one for one in self.unless)


Beside = NoEffect | Refused
Table = Mapping[str, Beside]

_STORED: Final = NoEffect("nothing is stored here")
_ONE_TIER: Final = NoEffect("all requests are served alike; see priority")
_CACHE: Final = NoEffect("equal beginnings are always found again")
_APART: Final = NoEffect("what a model thinks is told apart from its answer, as it comes")
_NAMES: Final = NoEffect("requests have names of their own here")
_BEAMS: Final = NoEffect("there is no beam search")
_IMAGES: Final = NoEffect("this model does not read images")
_AS_SENT: Final = NoEffect("a conversation is read as it was sent")
_NO_DIAL: Final = NoEffect("this model has no such dial")
_UNPAID: Final = NoEffect("nothing is billed here")
_TEXT_ONLY: Final = "this model reads and writes text only: leave it out"
_HIDDEN: Final = "it is not told here: leave it out"
_TRANSFER: Final = "keys stay on this server: leave it out"
_WITHIN: Final = "give its fields beside the others, as guided_json"
_LIMIT: Final = "take max_tokens, or max_output_tokens in responses"

_GENERATING: Final[Table] = {
    "user": NoEffect("clients are told apart by their keys"),
    "safety_identifier": NoEffect("clients are told apart by their keys"),
    "store": _STORED,
    "metadata": _STORED,
    "service_tier": _ONE_TIER,
    "prompt_cache_key": _CACHE,
    "prompt_cache_retention": _CACHE,
    "prompt_cache_options": _CACHE,
    "prediction": NoEffect("drafts never change the output, and this server makes its own"),
    "verbosity": _NO_DIAL,
    "stream_reasoning": _APART,
    "spaces_between_special_tokens": NoEffect("special tokens are never part of a text"),
    "length_penalty": _BEAMS,
    "early_stopping": _BEAMS,
    "rid": _NAMES,
    "session_id": _NAMES,
    "stream_interval": NoEffect("pieces are sent as they come"),
    "truncation_side": NoEffect("a prompt is never cut"),
    "mm_processor_kwargs": _IMAGES,
    "media_io_kwargs": _IMAGES,
    **dict.fromkeys(
        ("return_mm_kwargs", "max_dynamic_patch", "min_dynamic_patch", "use_audio_in_video"),
        _IMAGES,
    ),
    "routed_experts_prompt_start": NoEffect("the choices of experts are not told"),
    "return_cached_tokens_details": NoEffect("the usage has cached_tokens"),
    "data_parallel_rank": NoEffect("a request is given to one replica as the server chooses"),
    "guided_decoding_backend": NoEffect("all backends enforce the same"),
    "return_token_offsets": NoEffect("prompts are not rendered for clients"),
    "separate_reasoning": Refused("what a model thinks is told apart from its answer", (True,)),
    "use_beam_search": Refused("there are no beams: ask for n samples", (False,)),
    "skip_special_tokens": Refused("special tokens are never part of a text", (True,)),
    "truncate_prompt_tokens": Refused("a prompt is never cut: send a shorter one"),
    "modalities": Refused(_TEXT_ONLY, (["text"],)),
    "audio": Refused(_TEXT_ONLY),
    "web_search_options": Refused("nothing is searched here: leave it out"),
    "moderation": Refused("nothing is moderated here: leave it out"),
    **dict.fromkeys(
        ("cache_salt", "extra_key"),
        Refused("equal beginnings are shared by all clients: leave it out"),
    ),
    "kv_transfer_params": Refused(_TRANSFER, ({},)),
    "ec_transfer_params": Refused(_TRANSFER, ({},)),
    **dict.fromkeys(("bootstrap_host", "bootstrap_port", "bootstrap_room"), Refused(_TRANSFER)),
    "vllm_xargs": Refused("nothing here would read it: leave it out", ({},)),
    "custom_params": Refused("nothing here would read it: leave it out", ({},)),
    "return_hidden_states": Refused(_HIDDEN, (False,)),
    "return_prompt_token_ids": Refused(_HIDDEN, (False,)),
    "return_meta_info": Refused(_HIDDEN, (False,)),
    "return_routed_experts": Refused(_HIDDEN, (False,)),
    "logprob_token_ids": Refused("likeliest tokens are told: take logprobs"),
    "repetition_detection": Refused("take repetition_penalty, frequency_penalty or max_tokens"),
    "watermarking": Refused("outputs carry no watermark: leave it out", (False,)),
    "logits_processors": Refused("code is taken from Python alone: take logit_bias"),
    "custom_logit_processor": Refused("code is taken from Python alone: take logit_bias"),
    "guided_whitespace_pattern": Refused("whitespace is bounded as the server is told"),
    "stop_regex": Refused("take stop, or a regex that the whole output matches"),
    "no_stop_trim": Refused("take include_stop_str_in_output", (False,)),
    "lora_path": Refused("there are no adapters here: leave it out"),
    "grammar": Refused("take guided_grammar, guided_regex or guided_json", ("",)),
    "structural_tag": Refused("take structured_outputs.structural_tag"),
    "nvext": Refused(_WITHIN, ({},)),
    "extra_body": Refused(_WITHIN, ({},)),
    "sampling_params": Refused(_WITHIN, ({},)),
    "n_predict": Refused(_LIMIT, (-1,)),
    "max_new_tokens": Refused(_LIMIT),
    "min_new_tokens": Refused("take min_tokens", (0,)),
    "sampling_seed": Refused("take seed"),
    "session_params": Refused("nothing is stored here: send the whole prompt", ({},)),
    "repeat_penalty": Refused("take repetition_penalty", (1, 1.0)),
}

_CONVERSATION: Final[Table] = {
    **_GENERATING,
    "add_special_tokens": Refused("the chat template says where they are", (False,)),
    "input_ids": Refused("take /v1/completions, whose prompt may be token ids"),
    "documents": Refused("put them into the messages", ([],)),
    "best_of": Refused("ask for n samples", (1,)),
}
_TOLD: Final = "take /v1/chat/completions or /v1/completions, which tell them"

CHAT: Final[Table] = {
    **_CONVERSATION,
    "input": Refused("this API reads messages; /v1/responses reads input"),
    "prompt": Refused("this API reads messages; /v1/completions reads a prompt"),
    "text": Refused("this API reads response_format"),
    "max_output_tokens": Refused("this API reads max_completion_tokens"),
}

COMPLETIONS: Final[Table] = {
    **_GENERATING,
    "return_prompt_text": Refused("take echo, which tells it", (False,)),
    "reasoning_effort": NoEffect("a prompt that is no conversation is continued as it is"),
    "thinking_token_budget": Refused("take /v1/chat/completions, where a model reasons", (-1,)),
    "prompt_embeds": Refused("a prompt is a text or token ids: give it as prompt"),
    "suffix": Refused("this model does not fill in: leave it out", ("",)),
    "messages": Refused("this API reads a prompt; /v1/chat/completions reads messages"),
    "tools": Refused("take /v1/chat/completions, where tools are called", ([],)),
}

TOKENIZE: Final[Table] = {
    "mm_processor_kwargs": _IMAGES,
    "media_io_kwargs": _IMAGES,
}

_WHOLE: Final = "nothing is stored here: send the whole conversation as input"
RESPONSES: Final[Table] = {
    **_CONVERSATION,
    **dict.fromkeys(
        ("return_spans", "return_token_ids", "return_tokens_as_token_ids"),
        Refused(_TOLD, (False,)),
    ),
    "return_prompt_text": Refused("take /v1/chat/completions, which tells it", (False,)),
    "prompt_logprobs": Refused(_TOLD),
    "echo": Refused("messages are not told again: leave it out", (False,)),
    "continue_final_message": Refused("take /v1/chat/completions, which continues it", (False,)),
    "add_generation_prompt": Refused("the chat template begins a new answer", (True,)),
    "request_id": _NAMES,
    "client_metadata": _STORED,
    "access_programs": _ONE_TIER,
    "image": _IMAGES,
    "background_options": NoEffect("there are no answers in the background"),
    "context_management": _AS_SENT,
    "max_tool_calls": NoEffect("there are no built-in tools"),
    "previous_response_id": Refused(_WHOLE),
    "conversation": Refused(_WHOLE),
    "prompt": Refused(_WHOLE),
    "background": Refused("leave it out, and stream instead", (False,)),
    "truncation": NoEffect("a conversation is never cut: one that is too long is refused"),
    "n": Refused("a response is one: ask again for another", (1,)),
    "messages": Refused("this API reads input; /v1/chat/completions reads messages"),
    "response_format": Refused("this API reads text.format"),
    "max_tokens": Refused("this API reads max_output_tokens"),
    "max_completion_tokens": Refused("this API reads max_output_tokens"),
}
STREAM_OPTIONS: Final[Table] = {
    "include_obfuscation": NoEffect("lengths of pieces are not hidden"),
}

REASONING: Final[Table] = {
    "enabled": Refused("take reasoning_effort, which may be none", (True,)),
    "max_tokens": Refused("take max_reasoning_tokens"),
    "exclude": Refused("take include_reasoning", (False,)),
    "mode": _NO_DIAL,
}

TEXT: Final[Table] = {"verbosity": _NO_DIAL}

STRUCTURED_OUTPUTS: Final[Table] = {
    "disable_fallback": NoEffect("a guide that cannot be enforced is always refused"),
    "disable_any_whitespace": Refused("whitespace is bounded as the server is told", (False,)),
    "whitespace_pattern": Refused("whitespace is bounded as the server is told"),
}

_GUIDES: Final = (
    "response_format",
    "structured_outputs",
    *("guided_json", "guided_regex", "guided_choice", "guided_grammar"),
    *("json_schema", "regex", "ebnf", "grammar", "structural_tag"),
)
ANTHROPIC: Final[Table] = {
    **dict.fromkeys(_GUIDES, Refused("take output_config.format, or /v1/chat/completions")),
    "stop": Refused("this API reads stop_sequences"),
    "return_spans": Refused(_TOLD, (False,)),
    "faithful": Refused("take /v1/chat/completions, which draws so", (False,)),
    "cache_control": _CACHE,
    "metadata": _STORED,
    "service_tier": _ONE_TIER,
    "speed": _ONE_TIER,
    "inference_geo": _ONE_TIER,
    "diagnostics": _STORED,
    "user_profile_id": NoEffect("clients are told apart by their keys"),
    "workspace_id": NoEffect("clients are told apart by their keys"),
    "context_management": _AS_SENT,
    "billing_policy": _UNPAID,
    "fallback_credit_token": _UNPAID,
    "fallbacks": NoEffect("this model declines nothing by policy, and there is no other"),
    "compaction": Refused("no conversation is summarized by itself: ask for it in a message"),
    "thread": Refused("nothing is stored here: send the whole conversation", ({"type": "create"},)),
    "container": Refused("nothing is run here: leave it out"),
    "mcp_servers": Refused("no MCP server is asked from here: run the tools", ([],)),
}
