"""Owns what becomes of options by the names that they have in vLLM and SGLang."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from specguide.errors import InvalidParams

Spelling = Callable[[str], str]
"""How an option of ours is written by who asks, say --max-batch-size."""


@dataclass(frozen=True)
class OtherOption:
    """An option of another engine.

    remedy:   what to do instead, with our options as {name}; None: it changes nothing here,
              whatever its value
    harmless: values, as a command line has them, that change nothing here
    is_flag:  on a command line it stands without a value
    """

    remedy: str | None = None
    harmless: tuple[str, ...] = ()
    is_flag: bool = False

    def check(self, name: str, value: Any, spelling: Spelling) -> None:
        """Raises InvalidParams where it would have to change something."""
        if self.remedy is None or value is None or str(value).lower() in self.harmless:
            return
        remedy = re.sub(r"\{(\w+)\}", lambda ours: spelling(ours[1]), self.remedy)
        raise InvalidParams(f"{spelling(name)} is not an option here: {remedy}", param=name)


def without_others(
    options: Mapping[str, OtherOption], given: Mapping[str, Any], spelling: Spelling
) -> dict[str, Any]:
    """What is given but for options of other engines. Raises InvalidParams for one that would have
    to change something."""
    for name, value in given.items():
        if name in options:
            options[name].check(name, value, spelling)
    return {name: value for name, value in given.items() if name not in options}


def _called(name: str) -> OtherOption:
    return OtherOption(f"take {{{name}}}")


_NO_ADAPTERS = "there are no adapters"
_OWN_TOKENIZER = "the model's folder has its tokenizer and its chat template: change them there"
_FOLDER = "a model is a folder, which `hf download` makes"
_REPLICAS = "engines beside one another are `specguide serve --replicas`"
_ALWAYS = OtherOption("it is always on, and costs nothing: leave it out", ("true",), is_flag=True)
_NOTHING = OtherOption()
_NO_FLAG = OtherOption(is_flag=True)

_EMPTY = ("", "{}", "[]", "()")
_OFF = ("false",)

OTHER_OPTIONS: Mapping[str, OtherOption] = {
    "trust_remote_code": _NO_FLAG,
    "disable_log_stats": _NO_FLAG,
    "disable_log_requests": _NO_FLAG,
    "enable_auto_tool_choice": _ALWAYS,
    "enable_prefix_caching": _ALWAYS,
    "enable_chunked_prefill": _ALWAYS,
    "load_format": OtherOption(_FOLDER, ("auto", "safetensors")),
    "tokenizer_mode": OtherOption(_OWN_TOKENIZER, ("auto", "hf")),
    "task": OtherOption("models generate text", ("auto", "generate")),
    "runner": OtherOption("models generate text", ("auto", "generate")),
    "generation_config": OtherOption(
        "it is the file of that name in the model's folder; with vllm take {sampling_defaults} "
        "openai",
        ("auto",),
    ),
    "override_generation_config": OtherOption(
        "change generation_config.json in the model's folder", _EMPTY
    ),
    "limit_mm_per_prompt": _NOTHING,
    "chat_template_content_format": _NOTHING,
    "swap_space": _NOTHING,
    "cpu_offload_gb": OtherOption("weights are all on the device", ("0", "0.0")),
    "distributed_executor_backend": OtherOption("ranks are processes of one host", ("mp", "auto")),
    "data_parallel_size": OtherOption(_REPLICAS, ("1",)),
    "tokenizer": OtherOption(_OWN_TOKENIZER),
    "chat_template": OtherOption(_OWN_TOKENIZER),
    "revision": OtherOption(_FOLDER),
    "download_dir": OtherOption(_FOLDER),
    "hf_token": OtherOption(_FOLDER),
    "hf_overrides": OtherOption("change config.json in the model's folder", ("{}",)),
    "enable_lora": OtherOption(_NO_ADAPTERS, ("false",), is_flag=True),
    "lora_modules": OtherOption(_NO_ADAPTERS),
    "seed": OtherOption("requests have a seed each, as SamplingParams(seed=…)"),
    "speculative_config": OtherOption("take {spec}"),
    "speculative_model": OtherOption("take {spec}"),
    "num_speculative_tokens": OtherOption("take {spec}"),
    "max_num_seqs": _called("max_batch_size"),
    "max_running_requests": _called("max_batch_size"),
    "max_num_batched_tokens": _called("max_prefill_tokens"),
    "chunked_prefill_size": _called("max_prefill_tokens"),
    "block_size": _called("page_size"),
    "num_gpu_blocks_override": _called("num_pages"),
    "mem_fraction_static": _called("gpu_memory_utilization"),
    "context_length": _called("max_model_len"),
    "guided_decoding_backend": OtherOption("take {guide_backend}", ("auto",)),
    "structured_outputs_config": _called("guide_backend"),
    "grammar_backend": _called("guide_backend"),
    "tool_call_parser": _called("tool_format"),
    "reasoning_parser": _called("reasoning_format"),
    "model_path": _called("model"),
    "tp": _called("tensor_parallel_size"),
    "pp": _called("pipeline_parallel_size"),
    "dp": OtherOption(_REPLICAS, ("1",)),
    "api_server_count": _called("api_servers"),
    "enable_log_requests": OtherOption("take {log_requests}", ("false",), is_flag=True),
    "uds": OtherOption("it listens on TCP alone: take {host} and {port}"),
    "config": OtherOption("options are read from the command line alone"),
}

OTHER_LLM_OPTIONS: Mapping[str, OtherOption] = {
    **OTHER_OPTIONS,
    "served_model_name": _NOTHING,
    "max_seq_len_to_capture": _NOTHING,
    "disable_custom_all_reduce": _NOTHING,
    "disable_async_output_proc": _NOTHING,
    "async_scheduling": _NOTHING,
    "cuda_graph_sizes": _NOTHING,
    "compilation_config": _NOTHING,
    "attention_backend": _NOTHING,
    "attention_config": _NOTHING,
    "mm_processor_kwargs": _NOTHING,
    "allowed_local_media_path": _NOTHING,
    "allowed_media_domains": _NOTHING,
    "log_level": _NOTHING,
    "max_logprobs": _NOTHING,
    "skip_tokenizer_init": OtherOption("the tokenizer is always read: leave it out", _OFF),
    "disable_cuda_graph": OtherOption("take {enforce_eager}", _OFF),
    "disable_radix_cache": OtherOption("equal beginnings are always found again", _OFF),
    "tokenizer_revision": OtherOption(_FOLDER),
    "code_revision": OtherOption(_FOLDER),
    "hf_config_path": OtherOption(_FOLDER),
    "config_format": OtherOption(_FOLDER, ("auto", "hf")),
    "convert": OtherOption("models generate text", ("auto", "none")),
    "generation_config": OtherOption("requests say how they are sampled", ("vllm",)),
    "override_generation_config": OtherOption("requests say how they are sampled", _EMPTY),
    "override_pooler_config": OtherOption("models generate text"),
    "pooler_config": OtherOption("models generate text"),
    "logits_processors": OtherOption("requests have them, as SamplingParams(logits_processors=…)"),
    "scheduling_policy": _NOTHING,
    "max_loras": _NOTHING,
    "max_lora_rank": _NOTHING,
    "kv_transfer_config": OtherOption("take LLM.of(EngineConfig(transfer=TransferConfig(…)))"),
    "enable_sleep_mode": OtherOption("close the engine, and build another", _OFF),
    "calculate_kv_scales": OtherOption("scales are those of the checkpoint", _OFF),
    "random_seed": OTHER_OPTIONS["seed"],
    "tp_size": _called("tensor_parallel_size"),
    "pp_size": _called("pipeline_parallel_size"),
    "dp_size": OTHER_OPTIONS["dp"],
    "speculative_algorithm": _called("spec"),
    "speculative_draft_model_path": _called("spec"),
    "speculative_num_steps": _called("spec"),
    "speculative_eagle_topk": _called("spec"),
    "speculative_num_draft_tokens": _called("spec"),
}
"""Of LLM, where no command line is read."""

OTHER_CALL_OPTIONS: Mapping[str, OtherOption] = {
    "sampling_params": _called("params"),
    "use_tqdm": _NOTHING,
    "lora_request": OtherOption(_NO_ADAPTERS),
    "prompt_token_ids": OtherOption("give them as {prompts}"),
    "priority": OtherOption("the prompts of a call run alike", ("0", *_EMPTY)),
    "tokenization_kwargs": OtherOption("a prompt may be token ids of your own", _EMPTY),
    "mm_processor_kwargs": _NOTHING,
    "chat_template": OtherOption(_OWN_TOKENIZER),
    "chat_template_content_format": _NOTHING,
    "chat_template_kwargs": OtherOption(
        "generate from llm.tokenizer.apply_chat_template(messages, variables={…})", _EMPTY
    ),
    "add_generation_prompt": OtherOption("the chat template begins a new answer", ("true",)),
    "continue_final_message": OtherOption("the chat template begins a new answer", _OFF),
}
"""Of LLM.generate and LLM.chat."""

_WITHIN_GUIDE = OtherOption("take guide=Guide(…), which has it")

OTHER_SAMPLING: Mapping[str, OtherOption] = {
    "detokenize": _NOTHING,
    "spaces_between_special_tokens": _NOTHING,
    "output_kind": _NOTHING,
    "skip_clone": _NOTHING,
    "skip_reading_prefix_cache": _NOTHING,
    "output_text_buffer_length": _NOTHING,
    "length_penalty": _NOTHING,
    "early_stopping": _NOTHING,
    "skip_special_tokens": OtherOption(
        "special tokens are never part of a text: read token_ids", ("true",)
    ),
    "best_of": OtherOption("ask for {n} samples", ("1",)),
    "use_beam_search": OtherOption("there are no beams: ask for {n} samples", _OFF),
    "truncate_prompt_tokens": OtherOption("a prompt is never cut: give a shorter one"),
    "flat_logprobs": OtherOption("logprobs are in one form: leave it out", _OFF),
    "logprob_token_ids": OtherOption("likeliest tokens are told: take {logprobs}", _EMPTY),
    "thinking_token_budget": OtherOption("take reasoning=Reasoning(max_tokens=…)"),
    "repetition_detection": OtherOption(
        "take {repetition_penalty}, {frequency_penalty} or {max_tokens}"
    ),
    "extra_args": OtherOption("nothing here would read it: leave it out", _EMPTY),
    "custom_params": OtherOption("nothing here would read it: leave it out", _EMPTY),
    "max_new_tokens": _called("max_tokens"),
    "min_new_tokens": _called("min_tokens"),
    "no_stop_trim": OtherOption("take {include_stop_str_in_output}", _OFF),
    "stop_regex": OtherOption("take {stop}, or a regex that the whole output matches", _EMPTY),
    "logits_processor": _called("logits_processors"),
    "custom_logit_processor": _called("logits_processors"),
    "json_schema": _WITHIN_GUIDE,
    "regex": _WITHIN_GUIDE,
    "ebnf": _WITHIN_GUIDE,
    "structural_tag": _WITHIN_GUIDE,
}
"""Of SamplingParams."""
