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


def _called(name: str) -> OtherOption:
    return OtherOption(f"take {{{name}}}")


_NO_ADAPTERS = "there are no adapters"
_OWN_TOKENIZER = "the model's folder has its tokenizer and its chat template: change them there"
_FOLDER = "a model is a folder, which `hf download` makes"
_REPLICAS = "engines beside one another are `specguide serve --replicas`"
_ALWAYS = OtherOption("it is always on, and costs nothing: leave it out", ("true",), is_flag=True)
_NOTHING = OtherOption()
_NO_FLAG = OtherOption(is_flag=True)

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
    "generation_config": OtherOption("requests say how they are sampled", ("vllm",)),
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
