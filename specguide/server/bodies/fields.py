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
    """Refused by its name.

    why:    the reason, and what to do
    unless: values that change nothing
    code:   the error's code, where clients act on it
    """

    why: str
    unless: tuple[Any, ...] = ()
    code: str | None = None

    def takes(self, value: Any) -> bool:
        """Whether a value changes nothing, and is accepted."""
        return any(type(value) is type(one) and value == one for one in self.unless)


Beside = NoEffect | Refused
Table = Mapping[str, Beside]

_STORED: Final = NoEffect("nothing is stored here")
_ONE_TIER: Final = NoEffect("all requests are served alike; use priority")
_CACHE: Final = NoEffect("the prefix cache is always on")
_APART: Final = NoEffect("reasoning is always streamed apart from the answer")
_NAMES: Final = NoEffect("this server gives each request an id of its own")
_BEAMS: Final = NoEffect("there is no beam search")
_NO_IMAGES: Final = NoEffect("only images are read, and they are not returned")
_PREPARED: Final = Refused("images are prepared as the model's folder says: leave it out", ({},))
_AS_SENT: Final = NoEffect("a conversation is read as it was sent")
_NO_DIAL: Final = NoEffect("this model has no setting for it")
_UNPAID: Final = NoEffect("nothing is billed here")
_TEXT_ONLY: Final = "answers are text only: leave it out"
_HIDDEN: Final = "this server does not return it: leave it out"
_TRANSFER: Final = "a request cannot move its KV cache to another server: leave it out"
_WITHIN: Final = "put its fields at the top level of the body, as guided_json"
_WHITESPACE: Final = "the server's option --max-whitespace limits whitespace: leave it out"
_LIMIT: Final = "use max_tokens, or max_output_tokens in responses"

_GENERATING: Final[Table] = {
    "user": NoEffect("clients are told apart by their API keys"),
    "safety_identifier": NoEffect("clients are told apart by their API keys"),
    "store": _STORED,
    "metadata": _STORED,
    "service_tier": _ONE_TIER,
    "prompt_cache_key": _CACHE,
    "prompt_cache_retention": _CACHE,
    "prompt_cache_options": _CACHE,
    "prediction": NoEffect("drafts never change the output, and this server makes its own"),
    "verbosity": _NO_DIAL,
    "stream_reasoning": _APART,
    "spaces_between_special_tokens": NoEffect("special tokens are written as they are named"),
    "length_penalty": _BEAMS,
    "early_stopping": _BEAMS,
    "rid": _NAMES,
    "session_id": _NAMES,
    "stream_interval": NoEffect("each piece is sent as soon as it is there"),
    **dict.fromkeys(
        ("mm_processor_kwargs", "media_io_kwargs", "max_dynamic_patch", "min_dynamic_patch"),
        _PREPARED,
    ),
    **dict.fromkeys(("return_mm_kwargs", "use_audio_in_video"), _NO_IMAGES),
    "routed_experts_prompt_start": NoEffect("the routed experts are not returned"),
    "return_cached_tokens_details": NoEffect("usage always has cached_tokens"),
    **dict.fromkeys(
        ("data_parallel_rank", "routed_dp_rank"),
        NoEffect("the server chooses the replica of each request"),
    ),
    "guided_decoding_backend": NoEffect("all backends enforce the same grammar"),
    "return_token_offsets": NoEffect("prompts are not rendered for clients"),
    "separate_reasoning": Refused(
        "reasoning is always returned apart from the answer: leave it out", (True,)
    ),
    "use_beam_search": Refused("there is no beam search: use n for several samples", (False,)),
    "modalities": Refused(_TEXT_ONLY, (["text"],)),
    "audio": Refused(_TEXT_ONLY),
    "web_search_options": Refused("this server does not search the web: leave it out"),
    "moderation": Refused("this server does not moderate texts: leave it out"),
    **dict.fromkeys(
        ("cache_salt", "extra_key"),
        Refused("all clients share one prefix cache: leave it out"),
    ),
    "kv_transfer_params": Refused(_TRANSFER, ({},)),
    "ec_transfer_params": Refused(_TRANSFER, ({},)),
    **dict.fromkeys(("bootstrap_host", "bootstrap_port", "bootstrap_room"), Refused(_TRANSFER)),
    "vllm_xargs": Refused("this server does not read it: leave it out", ({},)),
    "custom_params": Refused("this server does not read it: leave it out", ({},)),
    "return_hidden_states": Refused(_HIDDEN, (False,)),
    "return_prompt_token_ids": Refused(_HIDDEN, (False,)),
    "return_meta_info": Refused(_HIDDEN, (False,)),
    "return_routed_experts": Refused(_HIDDEN, (False,)),
    "logprob_token_ids": Refused("only the most likely tokens are returned: use logprobs"),
    "repetition_detection": Refused("use repetition_penalty, frequency_penalty or max_tokens"),
    "watermarking": Refused("outputs carry no watermark: leave it out", (False,)),
    "logits_processors": Refused("only the Python API takes code: use logit_bias"),
    "custom_logit_processor": Refused("only the Python API takes code: use logit_bias"),
    "guided_whitespace_pattern": Refused(_WHITESPACE),
    "guided_decoding": Refused("use structured_outputs, which has the same fields"),
    "stop_sequences": Refused("this API reads stop", ([],)),
    "stop_regex": Refused("use stop, or a regex that the whole output matches"),
    "no_stop_trim": Refused("use include_stop_str_in_output", (False,)),
    **dict.fromkeys(
        ("lora_path", "lora_request", "lora"),
        Refused("give the name of the adapter as model"),
    ),
    "grammar": Refused("use guided_grammar, guided_regex or guided_json", ("",)),
    "structural_tag": Refused("use structured_outputs.structural_tag"),
    "nvext": Refused(_WITHIN, ({},)),
    "extra_body": Refused(_WITHIN, ({},)),
    "sampling_params": Refused(_WITHIN, ({},)),
    "n_predict": Refused(_LIMIT, (-1,)),
    "max_new_tokens": Refused(_LIMIT),
    "min_new_tokens": Refused("use min_tokens", (0,)),
    "sampling_seed": Refused("use seed"),
    "session_params": Refused("nothing is stored here: send the whole prompt", ({},)),
    "repeat_penalty": Refused("use repetition_penalty", (1, 1.0)),
}

_CONVERSATION: Final[Table] = {
    **_GENERATING,
    "add_special_tokens": Refused("the chat template adds them: leave it out", (False,)),
    "input_ids": Refused("use /v1/completions, whose prompt may be token ids"),
    "documents": Refused("put them into the messages", ([],)),
    "best_of": Refused("use n for several samples", (1,)),
}
_TOLD: Final = "use /v1/chat/completions or /v1/completions, which return them"

_SYSTEM: Final = "this API reads it as a message of the role system"

CHAT: Final[Table] = {
    **_CONVERSATION,
    "input": Refused("this API reads messages; /v1/responses reads input"),
    "prompt": Refused("this API reads messages; /v1/completions reads a prompt"),
    "text": Refused("this API reads response_format"),
    "max_output_tokens": Refused("this API reads max_completion_tokens"),
    **dict.fromkeys(("system", "instructions"), Refused(_SYSTEM, ("",))),
    **dict.fromkeys(("output_config", "output_format"), Refused("this API reads response_format")),
}

COMPLETIONS: Final[Table] = {
    **_GENERATING,
    "return_prompt_text": Refused("use echo, which returns it", (False,)),
    "reasoning_effort": NoEffect("the prompt is continued as it is, without a chat template"),
    "thinking_token_budget": Refused("use /v1/chat/completions, where a model reasons", (-1,)),
    "prompt_embeds": Refused("use prompt, which is a string or token ids"),
    "suffix": Refused("this model cannot fill in the middle of a text: leave it out", ("",)),
    "max_output_tokens": Refused("this API reads max_tokens"),
    "top_logprobs": Refused("this API reads their number as logprobs", (0,)),
    "messages": Refused("this API reads a prompt; /v1/chat/completions reads messages"),
    "tools": Refused("use /v1/chat/completions, where tools are called", ([],)),
}

TOKENIZE: Final[Table] = {
    "mm_processor_kwargs": _PREPARED,
    "media_io_kwargs": _PREPARED,
}

_WHOLE: Final = "nothing is stored here: send the whole conversation as input"
RESPONSES: Final[Table] = {
    **_CONVERSATION,
    **dict.fromkeys(
        ("return_spans", "return_token_ids", "return_tokens_as_token_ids"),
        Refused(_TOLD, (False,)),
    ),
    "return_prompt_text": Refused("use /v1/chat/completions, which returns it", (False,)),
    "prompt_logprobs": Refused(_TOLD),
    "echo": Refused("this API does not repeat messages: leave it out", (False,)),
    "continue_final_message": Refused("use /v1/chat/completions, which continues it", (False,)),
    "add_generation_prompt": Refused("this API always begins a new answer: leave it out", (True,)),
    "truncate_prompt_tokens": Refused("a conversation is never truncated: send a shorter one"),
    "truncation_side": NoEffect("a conversation is never truncated"),
    "previous_input_messages": Refused(_WHOLE, ([],)),
    "enable_response_messages": Refused(_HIDDEN, (False,)),
    "request_id": _NAMES,
    "client_metadata": _STORED,
    "access_programs": _ONE_TIER,
    "image": NoEffect("images are parts of messages"),
    "background_options": NoEffect("there are no answers in the background"),
    "context_management": _AS_SENT,
    "max_tool_calls": NoEffect("there are no built-in tools"),
    "previous_response_id": Refused(_WHOLE),
    "conversation": Refused(_WHOLE),
    "prompt": Refused(_WHOLE),
    "background": Refused(
        "nothing is run in the background: leave it out, and use stream", (False,)
    ),
    "truncation": NoEffect("a conversation is never truncated: one that is too long is refused"),
    "n": Refused("a request gets one response: send it again for another one", (1,)),
    "messages": Refused("this API reads input; /v1/chat/completions reads messages"),
    "response_format": Refused("this API reads text.format"),
    "system": Refused("this API reads instructions", ("",)),
    "logprobs": Refused("use top_logprobs and include", (False,)),
    "max_tokens": Refused("this API reads max_output_tokens"),
    "max_completion_tokens": Refused("this API reads max_output_tokens"),
}
STREAM_OPTIONS: Final[Table] = {
    "include_obfuscation": NoEffect("pieces are never padded to hide their lengths"),
}

REASONING: Final[Table] = {
    "enabled": Refused("use reasoning_effort: none turns reasoning off", (True,)),
    "max_tokens": Refused("use max_reasoning_tokens"),
    "exclude": Refused("use include_reasoning", (False,)),
    "mode": _NO_DIAL,
}

TEXT: Final[Table] = {"verbosity": _NO_DIAL}

STRUCTURED_OUTPUTS: Final[Table] = {
    "disable_fallback": NoEffect("a guide that cannot be enforced is always refused"),
    "backend": NoEffect("all backends enforce the same grammar"),
    "disable_any_whitespace": Refused(_WHITESPACE, (False,)),
    "whitespace_pattern": Refused(_WHITESPACE),
}

_GUIDES: Final = (
    "response_format",
    "structured_outputs",
    *("guided_json", "guided_regex", "guided_choice", "guided_grammar"),
    *("json_schema", "regex", "ebnf", "grammar", "structural_tag"),
)
ANTHROPIC: Final[Table] = {
    **dict.fromkeys(_GUIDES, Refused("use output_config.format, or /v1/chat/completions")),
    "stop": Refused("this API reads stop_sequences"),
    "return_spans": Refused(_TOLD, (False,)),
    "faithful": Refused("use /v1/chat/completions, which has it", (False,)),
    "cache_control": _CACHE,
    "metadata": _STORED,
    "service_tier": _ONE_TIER,
    "speed": _ONE_TIER,
    "inference_geo": _ONE_TIER,
    "diagnostics": _STORED,
    "user_profile_id": NoEffect("clients are told apart by their API keys"),
    "workspace_id": NoEffect("clients are told apart by their API keys"),
    "context_management": _AS_SENT,
    "billing_policy": _UNPAID,
    "fallback_credit_token": _UNPAID,
    "fallbacks": NoEffect("this model declines nothing by policy, and there is no other model"),
    "compaction": Refused("no conversation is summarized by itself: ask for it in a message"),
    "thread": Refused(
        "nothing is stored here: send the whole conversation",
        ({"type": "create"},),
        "thread_not_found",  # Anthropic's clients then send the whole conversation by themselves
    ),
    "container": Refused("this server does not run code: leave it out"),
    "mcp_servers": Refused(
        "this server calls no MCP servers: run their tools in the client", ([],)
    ),
}
