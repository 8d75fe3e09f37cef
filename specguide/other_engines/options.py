"""Owns the options of a server, by their names in vLLM, SGLang and TensorRT-LLM."""

from __future__ import annotations

from collections.abc import Mapping

from specguide.other_engines.option import (
    EMPTY,
    NOTHING,
    OWN_TOKENIZER,
    TEXT_ONLY,
    OtherOption,
    called,
    only_off,
    same_as,
)
from specguide.other_engines.sglang import SGLANG_OPTIONS

_FOLDER = "a model is read from a folder: download it with `hf download`, and give that folder"
_REPLICAS = "to run several engines, use `specguide serve --replicas`"
_ALWAYS = OtherOption("it is always on, and costs nothing: leave it out", ("true",), is_flag=True)
_PROXY = "use a proxy in front of the server for it"
_DEFAULTS = "change generation_config.json in the model's folder"
_CONFIG = "change config.json in the model's folder"
_CODE = "code can only be given in Python, as SamplingParams(logits_processors=…)"
_JOINED = "to use the GPUs of other hosts, set {rank_address}, and run `specguide join` there"
_SEED = OtherOption(
    "each request has its own seed: give it there, in Python as SamplingParams(seed=…)"
)

_IDLE_FLAGS = (
    *("trust_remote_code", "disable_log_stats", "disable_log_requests", "async_scheduling"),
    *("disable_custom_all_reduce", "disable_frontend_multiprocessing", "use_v2_block_manager"),
    *("enable_dbo", "enable_eplb", "disable_hybrid_kv_cache_manager"),
    *("enable_torch_compile", "enable_mixed_chunk", "disable_overlap_schedule", "stream_output"),
    *("enable_p2p_check", "enable_hierarchical_cache", "enable_dp_attention"),
    *("skip_server_warmup", "disable_async_output_proc", "O0", "O1", "O2", "O3"),
    *("disable_cascade_attn", "enable_flashinfer_autotune", "kv_sharing_fast_prefill"),
    *("disable_nccl_for_dp_synchronization", "use_tqdm_on_load", "fail_on_environ_validation"),
    *("disable_chunked_mm_input", "skip_mm_profiling", "interleave_mm_strings", "enable_mm_embeds"),
    *("enable_mm_processor_stats", "enable_mfu_metrics", "kv_cache_metrics", "cudagraph_metrics"),
    *("enable_logging_iteration_details", "enable_layerwise_nvtx_tracing", "log_error_stack"),
    *("enable_log_deltas", "aggregate_engine_logging", "ray_workers_use_nsight"),
    *("enable_flash_late_interaction", "enable_offline_docs", "allow_deprecated_quantization"),
    *("fully_sharded_loras", "enable_cumem_allocator", "numa_bind", "scheduler_reserve_full_isl"),
    *("multi_step_stream_outputs", "disable_mm_preprocessor_cache", "enable_lora_bias"),
    "disable_logprobs_during_spec_decoding",
)
_IDLE = (
    *("chat_template_content_format", "swap_space"),
    *("allowed_local_media_path", "allowed_media_domains", "mm_attention_backend"),
    *("compilation_config", "optimization_level", "performance_mode", "O", "attention_config"),
    *("attention_backend", "sampling_backend", "moe_runner_backend", "moe_a2a_backend"),
    *("max_seq_len_to_capture", "max_cudagraph_capture_size", "cuda_graph_max_bs"),
    *("num_scheduler_steps", "preemption_mode", "stream_interval", "mamba_cache_mode"),
    *("long_prefill_token_threshold", "max_num_partial_prefills", "schedule_policy"),
    *("schedule_conservativeness", "prefix_caching_hash_algo", "safetensors_load_strategy"),
    *("max_parallel_loading_workers", "renderer_num_workers", "max_loras", "max_lora_rank"),
    *("max_cpu_loras", "uvicorn_log_level", "log_level", "log_level_http", "max_log_len"),
    *("log_requests_level", "decode_log_interval", "h11_max_incomplete_event_size"),
    *("h11_max_header_count", "watchdog_timeout", "warmups", "file_storage_path", "admin_api_key"),
    *("max_long_partial_prefills", "moe_backend", "all2all_backend", "expert_placement_strategy"),
    *("kernel_config", "eplb_config", "ubatch_size", "pt_load_map_location", "ignore_patterns"),
    *("model_loader_extra_config", "mm_processor_cache_gb", "profiler_config"),
    *("mm_processor_cache_type", "mm_encoder_tp_mode", "mm_encoder_attn_backend", "lora_dtype"),
    *("video_pruning_rate", "show_hidden_metrics_for_version", "kv_cache_metrics_sample"),
    *("num_lookahead_slots", "kv_offloading_backend", "offload_backend", "additional_config"),
    *("mamba_cache_dtype", "mamba_ssm_cache_dtype", "cp_kv_cache_interleave_size", "watermark"),
    *("tokenizer_pool_size", "tokenizer_pool_type", "tokenizer_pool_extra_config"),
    *("lora_extra_vocab_size", "long_lora_scaling_factors", "scheduler_delay_factor"),
    *("mm_tensor_ipc", "override_neuron_config", "offload_params"),
    *("offload_num_in_group", "offload_prefetch_step"),
)
"""Options without effect on outputs and answers: they tune another engine's speed or logs."""
_SPECULATIVE = (
    *("speculative_config", "speculative_model", "num_speculative_tokens"),
    *("speculative_algorithm", "speculative_draft_model_path", "speculative_num_steps"),
    *("speculative_eagle_topk", "speculative_num_draft_tokens", "speculative_max_model_len"),
    *("speculative_model_quantization", "speculative_draft_tensor_parallel_size"),
    "speculative_disable_by_batch_size",
)
_ALWAYS_ON = (
    *("enable_auto_tool_choice", "enable_prefix_caching", "enable_chunked_prefill"),
    *("enable_reasoning", "enable_prompt_tokens_details", "enable_cache_report"),
    *("enable_metrics", "enable_request_id_headers", "enable_priority_scheduling"),
    "enable_server_load_tracking",
)
_CALLED = {
    **dict.fromkeys(("max_num_seqs", "max_running_requests"), "max_batch_size"),
    **dict.fromkeys(("max_num_batched_tokens", "max_num_tokens"), "max_prefill_tokens"),
    "chunked_prefill_size": "max_prefill_tokens",
    **dict.fromkeys(("context_length", "max_seq_len"), "max_model_len"),
    **dict.fromkeys(("tool_call_parser", "tool_parser"), "tool_format"),
    "kv_cache_free_gpu_memory_fraction": "gpu_memory_utilization",
    "num_postprocess_workers": "api_servers",
    **dict.fromkeys(("tp", "tp_size"), "tensor_parallel_size"),
    **dict.fromkeys(("pp", "pp_size"), "pipeline_parallel_size"),
    **dict.fromkeys(("api_server_count", "tokenizer_worker_num"), "api_servers"),
    "block_size": "page_size",
    "ngram_prompt_lookup_min": "prompt_lookup_min",
    "ngram_prompt_lookup_max": "prompt_lookup_max",
    "num_gpu_blocks_override": "num_pages",
    "mem_fraction_static": "gpu_memory_utilization",
    "grammar_backend": "guide_backend",
    "reasoning_parser": "reasoning_format",
    "model_path": "model",
    "max_queued_requests": "max_waiting",
    "q": "quantization",
    "shutdown_timeout": "drain_s",
    "distributed_timeout_seconds": "rank_timeout_s",
    "disable_access_log_for_endpoints": "disable_uvicorn_access_log",
}
_DATA_PARALLEL = (
    *("data_parallel_rank", "data_parallel_start_rank", "data_parallel_size_local"),
    *("data_parallel_address", "data_parallel_rpc_port", "data_parallel_backend"),
)

OTHER_OPTIONS: Mapping[str, OtherOption] = {
    **SGLANG_OPTIONS,
    **dict.fromkeys(_IDLE_FLAGS, OtherOption(is_flag=True)),
    **dict.fromkeys(_IDLE, NOTHING),
    **dict.fromkeys(
        ("cuda_graph_sizes", "cuda_graph_bs", "cudagraph_capture_sizes"),
        OtherOption(takes_many=True),
    ),
    **dict.fromkeys(_ALWAYS_ON, _ALWAYS),
    **{name: called(ours) for name, ours in _CALLED.items()},
    # images
    "language_model_only": OtherOption("set {max_image_tokens} to 0", ("false",), is_flag=True),
    "limit_mm_per_prompt": OtherOption("set {limit_images_per_prompt}", EMPTY),
    **dict.fromkeys(
        ("mm_processor_kwargs", "media_io_kwargs"),
        OtherOption("change preprocessor_config.json in the model's folder", EMPTY),
    ),
    # the model
    **dict.fromkeys(("tokenizer", "tokenizer_path"), OtherOption(OWN_TOKENIZER)),
    "tokenizer_mode": OtherOption(OWN_TOKENIZER, ("auto", "hf")),
    "skip_tokenizer_init": only_off("the tokenizer is always read: leave it out"),
    **dict.fromkeys(("revision", "tokenizer_revision", "code_revision"), OtherOption(_FOLDER)),
    **dict.fromkeys(("download_dir", "hf_token", "hf_config_path"), OtherOption(_FOLDER)),
    "load_format": OtherOption(_FOLDER, ("auto", "safetensors")),
    "config_format": OtherOption(_FOLDER, ("auto", "hf")),
    **dict.fromkeys(
        ("hf_overrides", "json_model_override_args", "rope_scaling", "rope_theta"),
        OtherOption(_CONFIG, EMPTY),
    ),
    **dict.fromkeys(("task", "runner"), OtherOption(TEXT_ONLY, ("auto", "generate"))),
    "convert": OtherOption(TEXT_ONLY, ("auto", "none")),
    "is_embedding": only_off(TEXT_ONLY),
    "enable_lora": OtherOption(is_flag=True),
    "lora_paths": OtherOption("use {lora_modules}", EMPTY, takes_many=True),
    **dict.fromkeys(
        ("default_mm_loras", "qlora_adapter_name_or_path"), OtherOption("use {lora_modules}", EMPTY)
    ),
    "enable_prompt_adapter": only_off("prompt adapters are not supported"),
    "mm_encoder_only": only_off(TEXT_ONLY),
    "io_processor_plugin": OtherOption(TEXT_ONLY),
    **dict.fromkeys(
        ("quantization_config", "quantization_param_path"), OtherOption(_CONFIG, EMPTY)
    ),
    "torchao_config": OtherOption("use {quantization}", EMPTY),
    # memory, ranks and drafts
    **dict.fromkeys(
        ("cpu_offload_gb", "offload_group_size"),
        OtherOption("weights are never offloaded: leave it out", ("0", "0.0")),
    ),
    "max_total_tokens": OtherOption("use {num_pages} or {kv_cache_memory_bytes}"),
    "disable_cuda_graph": only_off("use {enforce_eager}"),
    "disable_radix_cache": only_off("prefix caching is always on: leave it out"),
    "enable_sleep_mode": only_off("an engine cannot sleep: stop it, and start another one later"),
    "distributed_executor_backend": OtherOption(
        "ranks are always run as processes: leave it out", ("mp", "auto")
    ),
    **dict.fromkeys(("data_parallel_size", "dp", "dp_size"), OtherOption(_REPLICAS, ("1",))),
    **dict.fromkeys(_DATA_PARALLEL, OtherOption(_REPLICAS)),
    **dict.fromkeys(("data_parallel_hybrid_lb", "data_parallel_external_lb"), only_off(_REPLICAS)),
    **dict.fromkeys(
        ("prefill_context_parallel_size", "decode_context_parallel_size"),
        OtherOption("one prompt is not divided among GPUs: use {tensor_parallel_size}", ("1",)),
    ),
    "kv_offloading_size": OtherOption("the KV cache is never offloaded: leave it out"),
    "calculate_kv_scales": only_off(
        "the scales of the KV cache are those of the checkpoint: leave it out"
    ),
    "disable_sliding_window": only_off("set {max_model_len} to the size of the window"),
    **dict.fromkeys(("ep", "ep_size"), OtherOption("use {enable_expert_parallel}", ("1",))),
    "nnodes": OtherOption(_JOINED, ("1",)),
    "node_rank": OtherOption(_JOINED, ("0",)),
    **dict.fromkeys(("dist_init_addr", "master_addr", "master_port"), OtherOption(_JOINED)),
    "headless": only_off(_JOINED),
    **dict.fromkeys(
        ("worker_cls", "worker_extension_cls", "scheduler_cls"),
        OtherOption("use LLM.around(Engine(config, executor=…))", ("auto",)),
    ),
    "kv_events_config": OtherOption(
        "events of the KV cache are not published: leave it out", EMPTY
    ),
    "weight_transfer_config": OtherOption(
        "the weights are always those of the folder: leave it out", EMPTY
    ),
    "enable_return_routed_experts": only_off(
        "the choices of experts are not returned: leave it out"
    ),
    "tokens_only": only_off("a prompt may always be token ids: leave it out"),
    "logits_processor_pattern": OtherOption(_CODE),
    "kv_transfer_config": OtherOption("use {role} and {kv_transfer_address}"),
    "disaggregation_mode": OtherOption("use {role} and {kv_transfer_address}", ("null",)),
    **dict.fromkeys(_SPECULATIVE, OtherOption("use {spec}")),
    # requests
    **dict.fromkeys(("seed", "random_seed"), _SEED),
    "generation_config": OtherOption(
        "generation_config.json is always that of the model's folder; for the value vllm, use "
        "{sampling_defaults} openai",
        ("auto",),
    ),
    **dict.fromkeys(
        ("override_generation_config", "preferred_sampling_params"), OtherOption(_DEFAULTS, EMPTY)
    ),
    "guided_decoding_backend": OtherOption("use {guide_backend}", ("auto",)),
    "structured_outputs_config": OtherOption("use {guide_backend} or {max_whitespace}", EMPTY),
    "constrained_json_whitespace_pattern": OtherOption("use {max_whitespace}"),
    **dict.fromkeys(
        ("constrained_json_disable_any_whitespace", "guided_decoding_disable_any_whitespace"),
        only_off("use {max_whitespace} 0"),
    ),
    "guided_decoding_disable_additional_properties": only_off("use {closed_objects}"),
    "guided_decoding_disable_fallback": OtherOption(is_flag=True),
    "reasoning_config": OtherOption("use {reasoning_format}", EMPTY),
    **dict.fromkeys(
        ("tool_parser_plugin", "reasoning_parser_plugin"),
        OtherOption("formats are files of the folder grammars: use {tool_format}", EMPTY),
    ),
    "default_chat_template_kwargs": OtherOption(
        "set it in each request, as chat_template_kwargs or reasoning_effort", EMPTY
    ),
    "scheduling_policy": OtherOption(
        "priorities always count, and the higher one runs first: leave it out", ("fcfs",)
    ),
    "schedule_low_priority_values_first": only_off(
        "the request with the higher priority always runs first: negate the priorities"
    ),
    "max_logprobs": OtherOption(
        "a request may ask for at most 20 logprobs", tuple(map(str, range(21)))
    ),
    "logprobs_mode": OtherOption(
        "logprobs are always those of the model itself (raw_logprobs)", ("raw_logprobs",)
    ),
    "logits_processors": OtherOption(_CODE, EMPTY),
    "enable_prompt_embeds": only_off("a prompt must be a text or token ids"),
    "tool_server": OtherOption("tools are run by the client, not by the server"),
    "enable_custom_logit_processor": only_off(_CODE),
    "allow_auto_truncate": only_off("a prompt is never truncated: send a shorter one"),
    # answers
    "response_role": OtherOption("answers always have the role assistant", ("assistant",)),
    "return_tokens_as_token_ids": only_off("set it in each request, by the same name"),
    "enable_force_include_usage": only_off("set it in each request, as stream_options"),
    "enable_log_requests": same_as("log_requests"),
    "trust_request_chat_template": same_as("allow_client_templates"),
    "exclude_tools_when_tool_choice_none": same_as("exclude_uncallable_tools"),
    "enable_log_outputs": only_off("outputs are never logged"),
    "disable_fastapi_docs": only_off("let a proxy hide /docs"),
    **dict.fromkeys(("middleware", "ssl_ciphers", "ssl_cert_reqs"), OtherOption(_PROXY)),
    "enable_ssl_refresh": only_off(_PROXY),
    **dict.fromkeys(
        ("allowed_methods", "allowed_headers"),
        OtherOption("web pages may always send GET and POST, with any header", ('["*"]', "*")),
    ),
    "enable_tokenizer_info_endpoint": only_off("use /tokenize, which returns the tokens of a text"),
    "enable_per_request_metrics": only_off("use {log_requests}, which logs these figures"),
    "fingerprint_mode": OtherOption("answers never have a system_fingerprint", ("none",)),
    "grpc": only_off("the server speaks only HTTP"),
    "uds": OtherOption("the server listens only on TCP: use {host} and {port}"),
    "extra_llm_api_options": called("config"),
}
