"""Owns options of the commands that measure a server: vLLM's `bench serve`, and SGLang's
`bench_serving`."""

from __future__ import annotations

from collections.abc import Mapping

from specguide.other_engines.option import EMPTY, NOTHING, OtherOption, called, only_off

_IDLE = (
    *("tokenizer", "tokenizer_mode", "ready_check_timeout_sec", "label", "metadata"),
    *("tokenize_prompt", "pd_separated"),
)
_IDLE_FLAGS = ("trust_remote_code", "ignore_eos", "disable_tqdm", "insecure", "apply_chat_template")
_PROMPT_LENS = ("random_input_len", "input_len", "random_input", "sonnet_input_len")
_OUTPUT_LENS = (
    *("random_output_len", "random_output", "custom_output_len", "hf_output_len"),
    *("sharegpt_output_len", "sonnet_output_len"),
)
_URL = OtherOption("use {url}, the server's address up to and with /v1")
_DATA = OtherOption(
    "use {prompt_len} for prompts at random of one length, or {schemas} and {tool_tasks} for files"
)
_FILE = OtherOption("use {output}, which takes the name of a file", EMPTY)
_TABLE = OtherOption("the table has p50 and p99 of all times: leave it out")
_ALIKE = OtherOption("all requests of {prompt_len} have one size: leave it out", ("0", "0.0"))
_NOT_SENT = OtherOption("requests do not have it: leave it out", EMPTY)

OTHER_BENCH_OPTIONS: Mapping[str, OtherOption] = {
    **dict.fromkeys(_IDLE, NOTHING),
    **dict.fromkeys(_IDLE_FLAGS, OtherOption(is_flag=True)),
    **dict.fromkeys(("base_url", "host", "port"), _URL),
    **dict.fromkeys(
        ("backend", "endpoint_type", "endpoint"),
        OtherOption("use {api}, which is chat or completions"),
    ),
    **dict.fromkeys(("dataset_name", "dataset_path", "dataset"), _DATA),
    **dict.fromkeys(("num_prompts", "num_prompt"), called("requests")),
    "request_rate": OtherOption("use {rate}", ("inf",)),
    "burstiness": OtherOption("requests come as a Poisson process: leave it out", ("1", "1.0")),
    **dict.fromkeys(("max_concurrency", "concurrent_requests"), called("concurrency")),
    **dict.fromkeys(_PROMPT_LENS, called("prompt_len")),
    **dict.fromkeys(_OUTPUT_LENS, called("output_len")),
    **dict.fromkeys(("random_range_ratio", "random_prefix_len"), _ALIKE),
    "structured_output_ratio": called("guided_share"),
    **dict.fromkeys(("served_model_name", "lora_modules", "lora_name"), called("model")),
    **dict.fromkeys(("result_dir", "result_filename", "output_file"), _FILE),
    **dict.fromkeys(
        ("save_result", "save_detailed", "append_result"), only_off("use {output}, with a file")
    ),
    **dict.fromkeys(("percentile_metrics", "metric_percentiles", "goodput"), _TABLE),
    **dict.fromkeys(
        ("num_warmups", "warmup_requests"), OtherOption("run the command twice", ("0",))
    ),
    "profile": only_off("start the server with --trace, and see its playground"),
    "flush_cache": only_off("no two loads share prompts: leave it out"),
    "use_beam_search": only_off("there is no beam search: leave it out"),
    "disable_stream": only_off("answers are always streamed: leave it out"),
    **dict.fromkeys(("top_p", "top_k", "min_p", "logprobs"), _NOT_SENT),
    **dict.fromkeys(("extra_body", "extra_request_body", "header"), _NOT_SENT),
}
"""Each is refused with what to do, or changes nothing."""
