"""Owns the arguments of vLLM's LLM, of its calls and of its SamplingParams, by their names in vLLM
and in SGLang."""

from __future__ import annotations

from collections.abc import Mapping

from specguide.other_engines.option import (
    EMPTY,
    LORA,
    NOTHING,
    OFF,
    OWN_TOKENIZER,
    TEXT_ONLY,
    OtherOption,
    called,
    only_off,
)
from specguide.other_engines.options import OTHER_OPTIONS

_LIST_OF_IDS = "a list of all token ids is returned: leave it out"

OTHER_LLM_OPTIONS: Mapping[str, OtherOption] = {
    **OTHER_OPTIONS,
    **dict.fromkeys(("served_model_name", "collect_detailed_traces"), NOTHING),
    "otlp_traces_endpoint": OtherOption("use `specguide serve --otlp-traces-endpoint`"),
    "spec_method": OtherOption("use spec=SpecConfig(…), or spec with its method's name"),
    **dict.fromkeys(("head", "draft_model"), OtherOption("use spec=SpecConfig(model=…)")),
    "generation_config": OtherOption(
        "give the sampling parameters with each request, as SamplingParams", ("vllm",)
    ),
    "override_generation_config": OtherOption(
        "give the sampling parameters with each request, as SamplingParams", EMPTY
    ),
    **dict.fromkeys(("override_pooler_config", "pooler_config"), OtherOption(TEXT_ONLY)),
    "logits_processors": OtherOption(
        "give them with each request, as SamplingParams(logits_processors=…)"
    ),
    "kv_transfer_config": OtherOption("use LLM.of(EngineConfig(transfer=TransferConfig(…)))"),
    "structured_outputs_config": OtherOption(
        "use {guide_backend} or guide=GuideConfig(max_whitespace=…)", EMPTY
    ),
    "guided_decoding_disable_any_whitespace": OtherOption(
        "use guide=GuideConfig(max_whitespace=0)", OFF
    ),
    "guided_decoding_disable_additional_properties": OtherOption(
        "write additionalProperties: false into the schema", OFF
    ),
}
"""Arguments of LLM, which have no command line."""

OTHER_CALL_OPTIONS: Mapping[str, OtherOption] = {
    "sampling_params": called("params"),
    **dict.fromkeys(("use_tqdm", "chat_template_content_format"), NOTHING),
    "mm_processor_kwargs": OtherOption(
        "change preprocessor_config.json in the model's folder", EMPTY
    ),
    **dict.fromkeys(("messages", "conversation"), called("conversations")),
    "request_id": OtherOption("outputs are in the order of the prompts"),
    "lora_request": OtherOption(LORA),
    "prompt_token_ids": OtherOption("give them as {prompts}"),
    "priority": OtherOption(
        "all prompts of a call have the same priority: leave it out", ("0", *EMPTY)
    ),
    "tokenization_kwargs": OtherOption(
        "to tokenize in your own way, give token ids as the prompt", EMPTY
    ),
    "chat_template": OtherOption("give it to the engine: LLM({chat_template}=…)"),
    "add_generation_prompt": OtherOption(
        "the chat template always begins an answer: to continue one, use continue_final_message",
        ("true",),
    ),
}
"""Arguments of LLM.generate and LLM.chat."""

OTHER_TEMPLATE_OPTIONS: Mapping[str, OtherOption] = {
    "tokenize": OtherOption(
        "token ids are returned, which are a prompt for generate; or use llm.chat(conversations)",
        ("true",),
    ),
    "chat_template": OtherOption("give it to the engine: LLM({chat_template}=…)"),
    "documents": OtherOption("put them into the messages, or into {variables}", EMPTY),
    "tokenizer_kwargs": OtherOption("a conversation is encoded in one way: leave it out", EMPTY),
    **dict.fromkeys(("return_dict", "return_assistant_tokens_mask"), only_off(_LIST_OF_IDS)),
    **dict.fromkeys(("padding", "truncation", "max_length"), OtherOption(_LIST_OF_IDS, OFF)),
    "return_tensors": OtherOption(_LIST_OF_IDS),
}
"""Arguments of apply_chat_template of transformers, whose tokenizer vLLM gives."""

OTHER_STREAM_OPTIONS: Mapping[str, OtherOption] = {
    "sampling_params": called("params"),
    **dict.fromkeys(("trace_headers", "prompt_text", "data_parallel_rank"), NOTHING),
    "request_id": OtherOption("leave the loop over a stream, and its request is cancelled"),
    "lora_request": OtherOption(LORA),
    **dict.fromkeys(("inputs", "prompt_token_ids"), called("prompt")),
    "tokenization_kwargs": OtherOption(
        "to tokenize in your own way, give token ids as the prompt", EMPTY
    ),
}
"""Arguments of AsyncLLM.generate."""

OTHER_GUIDE: Mapping[str, OtherOption] = {
    **dict.fromkeys(("json", "guided_json", "schema", "response_format"), called("json_schema")),
    **dict.fromkeys(("guided_json_object",), called("json_object")),
    **dict.fromkeys(("guided_regex", "pattern", "regexp"), called("regex")),
    **dict.fromkeys(("ebnf", "gbnf", "lark", "cfg", "guided_grammar"), called("grammar")),
    **dict.fromkeys(("choices", "guided_choice", "select"), called("choice")),
    **dict.fromkeys(("disable_fallback", "strict"), NOTHING),
    **dict.fromkeys(
        ("disable_any_whitespace", "whitespace_pattern", "guided_whitespace_pattern"),
        OtherOption("LLM(guide=GuideConfig(max_whitespace=…)) limits whitespace", OFF),
    ),
    "disable_additional_properties": OtherOption(
        "write additionalProperties: false into the schema", OFF
    ),
}
"""Arguments of StructuredOutputsParams and of what other libraries have like it."""

_IDLE_SAMPLING = (
    *("detokenize", "spaces_between_special_tokens", "output_kind", "skip_clone"),
    *("skip_reading_prefix_cache", "output_text_buffer_length", "length_penalty", "early_stopping"),
    *("stream_interval", "routed_experts_prompt_start"),
)
_CALLED_SAMPLING = {
    **dict.fromkeys(("max_new_tokens", "max_completion_tokens", "max_output_tokens"), "max_tokens"),
    **dict.fromkeys(("max_length", "n_predict"), "max_tokens"),
    "min_new_tokens": "min_tokens",
    **dict.fromkeys(("num_return_sequences", "num_samples"), "n"),
    **dict.fromkeys(("random_seed", "sampling_seed"), "seed"),
    "stop_strings": "stop",
    **dict.fromkeys(("eos_token_id", "end_id"), "stop_token_ids"),
    "bad": "bad_words",
    "repeat_penalty": "repetition_penalty",
    "top_logprobs": "logprobs",
    **dict.fromkeys(("logits_processor", "custom_logit_processor"), "logits_processors"),
}
_GUIDES = {
    **dict.fromkeys(("json_schema", "guided_json", "json", "response_format"), "json_schema"),
    **dict.fromkeys(("regex", "guided_regex"), "regex"),
    **dict.fromkeys(("ebnf", "guided_grammar", "grammar"), "grammar"),
    **dict.fromkeys(("guided_choice", "choice"), "choice"),
    "json_object": "json_object",
    "structural_tag": "structural_tag",
}

OTHER_SAMPLING: Mapping[str, OtherOption] = {
    **dict.fromkeys(_IDLE_SAMPLING, NOTHING),
    "best_of": OtherOption("ask for {n} samples", ("1",)),
    "use_beam_search": OtherOption("beam search is not supported: ask for {n} samples", OFF),
    "truncate_prompt_tokens": OtherOption(
        "cut the prompt yourself: give llm.tokenizer.encode(prompt)[-k:]"
    ),
    "flat_logprobs": OtherOption("logprobs have only one form: leave it out", OFF),
    "logprob_token_ids": OtherOption(
        "only the likeliest tokens are reported: use {logprobs}", EMPTY
    ),
    "thinking_token_budget": OtherOption("use reasoning=Reasoning(max_tokens=…)"),
    "repetition_detection": OtherOption(
        "use {repetition_penalty}, {frequency_penalty} or {max_tokens}"
    ),
    **dict.fromkeys(
        ("extra_args", "custom_params"),
        OtherOption("nothing would read it: leave it out", EMPTY),
    ),
    **{name: called(ours) for name, ours in _CALLED_SAMPLING.items()},
    "num_beams": OtherOption("beam search is not supported: ask for {n} samples", ("1",)),
    "do_sample": only_off("use {temperature}, which is 0 for the likeliest token"),
    **dict.fromkeys(
        ("prompt_logprob_token_ids", "prompt_logprob_start"),
        OtherOption("use {prompt_logprobs}, which are those of the whole prompt", EMPTY),
    ),
    "trace_decode_token_ids": OtherOption("score them as a prompt: use {prompt_logprobs}", EMPTY),
    "priority": OtherOption(
        "all prompts of a call have the same priority; AsyncEngine.generate has priority=…"
    ),
    "tools": OtherOption("use llm.chat(messages, tools=…)", EMPTY),
    "no_stop_trim": OtherOption("use {include_stop_str_in_output}", OFF),
    "stop_regex": OtherOption("use {stop}, or a regex that the whole output matches", EMPTY),
    **{name: OtherOption(f"use guide=Guide({kind}=…)") for name, kind in _GUIDES.items()},
}
"""Arguments of SamplingParams."""

OTHER_LLM_ATTRIBUTES: Mapping[str, str] = {
    **dict.fromkeys(
        ("encode", "embed", "classify", "score", "reward"),
        "only models that generate text are supported; to score a text, use prompt_logprobs=… of "
        "SamplingParams",
    ),
    "beam_search": "beam search is not supported: ask for samples, with n=… of SamplingParams",
    **dict.fromkeys(
        ("sleep", "wake_up"), "an LLM cannot sleep: close() frees its memory; build a new LLM later"
    ),
    **dict.fromkeys(
        ("collective_rpc", "apply_model", "update_weights", "init_weight_transfer_engine"),
        "the weights are those of the folder: to change them, build a new LLM",
    ),
    "get_tokenizer": "use tokenizer",
    "set_tokenizer": OWN_TOKENIZER,
    "get_default_sampling_params": "use SamplingParams(); generation_config.json is for `serve`",
    "get_metrics": "use stats(), and metrics of each output",
    **dict.fromkeys(
        ("start_profile", "stop_profile"), "build it with trace=True, and use write_trace(path)"
    ),
    "reset_mm_cache": "images give way to others by themselves: leave it out",
    "preprocess_chat": "use tokenizer.apply_chat_template(messages)",
    **dict.fromkeys(
        ("llm_engine", "enqueue", "wait_for_completion", "stream", "async_generate"),
        "use AsyncEngine of specguide.engine, which streams",
    ),
    "shutdown": "use close()",
}
"""What LLM has in vLLM and in SGLang, and what to do instead."""

OTHER_ASYNC_ATTRIBUTES: Mapping[str, str] = {
    "abort": "leave the loop over a stream, or call its aclose(), which cancels its request",
    **dict.fromkeys(("shutdown", "shutdown_background_loop"), "use await close()"),
    **dict.fromkeys(("get_tokenizer", "tokenizer_group"), "use tokenizer"),
    **dict.fromkeys(("check_health", "errored", "is_running", "dead_error"), "use health"),
    **dict.fromkeys(("get_model_config", "model_config", "get_vllm_config"), "use config"),
    "add_request": "use generate(prompt, params)",
    **dict.fromkeys(("encode", "score"), TEXT_ONLY),
    "do_log_stats": "use stats()",
    **dict.fromkeys(
        ("sleep", "wake_up"), "an engine cannot sleep: close it, and make a new one later"
    ),
    "reset_prefix_cache": "the prefix cache makes room by itself: leave it out",
}
"""What AsyncLLM has in vLLM, and what to do instead."""

OTHER_TOKENIZER_ATTRIBUTES: Mapping[str, str] = {
    **dict.fromkeys(("eos_token_id", "eos_token"), "use eos_token_ids"),
    **dict.fromkeys(
        ("convert_tokens_to_ids", "bos_token_id", "pad_token_id", "unk_token_id"),
        "use token_id(token)",
    ),
    **dict.fromkeys(
        ("convert_ids_to_tokens", "batch_decode"), "use decode(token_ids), once for each text"
    ),
    **dict.fromkeys(
        ("tokenize", "encode_plus", "batch_encode_plus"), "use encode(text), once for each text"
    ),
    "vocab_size": "use len(tokenizer)",
    **dict.fromkeys(("get_vocab", "vocab", "get_added_vocab"), "use entries()"),
    "get_chat_template": "use chat_template",
    **dict.fromkeys(("add_tokens", "add_special_tokens"), OWN_TOKENIZER),
}
"""What the tokenizer has that vLLM gives, and what to do instead."""

OTHER_OUTPUT_ATTRIBUTES: Mapping[str, str] = {
    "outputs": "use samples, or text and token_ids of the first",
    **dict.fromkeys(
        ("prompt", "prompt_token_ids", "request_id"), "outputs are in the order of the prompts"
    ),
    "finished": "an output is always complete; finish_reason says how it ended",
    "num_cached_tokens": "use metrics.num_cached",
    "cumulative_logprob": "add up the logprobs of its token_ids",
    "index": "use the position in samples",
    "lora_request": "it is the adapter that the parameters name",
}
"""What RequestOutput and CompletionOutput have in vLLM."""

OTHER_NAMES: Mapping[str, str] = {
    **dict.fromkeys(
        ("AsyncLLM", "AsyncLLMEngine", "AsyncEngine"),
        "from specguide.engine import AsyncEngine, Engine",
    ),
    **dict.fromkeys(
        ("EngineArgs", "AsyncEngineArgs", "ServerArgs"), "from specguide.config import EngineConfig"
    ),
    **dict.fromkeys(("LLMEngine", "Engine"), "use LLM"),
    **dict.fromkeys(
        ("StructuredOutputsParams", "GuidedDecodingParams"),
        "give SamplingParams a guide, as Guide(json_schema=…)",
    ),
    **dict.fromkeys(("TextPrompt", "TokensPrompt"), "a prompt is a text or a list of token ids"),
    "CompletionOutput": "RequestOutput.samples has what each sample gave",
    "LoRARequest": LORA,
}
"""What vLLM and SGLang have in their modules and specguide does not."""
