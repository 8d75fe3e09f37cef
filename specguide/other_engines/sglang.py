"""Owns further options of a server that only SGLang has."""

from __future__ import annotations

from collections.abc import Mapping

from specguide.other_engines.option import (
    EMPTY,
    NOTHING,
    TEXT_ONLY,
    OtherOption,
    called,
    only_off,
)

_CHECKPOINT = "quantize the checkpoint first, and give the folder of the result"
_GPUS = "choose the GPUs with the variable CUDA_VISIBLE_DEVICES"
_SLEEP = "an engine cannot sleep: stop it, and start another one later"
_METRICS_FILE = "use {log_requests}, which logs the figures of each request"
_OFFLOADED = "weights are never offloaded: leave it out"
_DIVIDED = "use {tensor_parallel_size}"
_EXACT = "drafts never change the output, so each is verified exactly: leave it out"

_IDLE_FLAGS = (
    *("enable_multimodal", "incremental_streaming_output", "sleep_on_idle", "show_time_cost"),
    *("enable_metrics_for_all_schedulers", "collect_tokens_histogram", "enable_dynamic_chunking"),
    *("enable_request_time_stats_logging", "disable_hybrid_swa_memory", "enable_prefill_delayer"),
    *("disable_flashinfer_autotune", "enable_flashinfer_allreduce_fusion", "enable_lmcache"),
    *("enable_aiter_allreduce_fusion", "enable_expert_distribution_metrics", "language_only"),
    *("enable_lora_overlap_loading", "disable_cuda_graph_padding", "enable_profile_cuda_graph"),
    *("enable_cudagraph_gc", "enable_layerwise_nvtx_marker", "enable_nccl_nvls", "enable_mscclpp"),
    *("enable_symm_mem", "enable_torch_symm_mem", "enable_tokenizer_batch_encode"),
    *("disable_tokenizer_batch_decode", "disable_outlines_disk_cache", "enable_dp_lm_head"),
    *("enable_two_batch_overlap", "enable_single_batch_overlap", "enable_nan_detection"),
    *("enable_torch_compile_debug_mode", "disable_piecewise_cuda_graph", "enable_ep_moe"),
    *("enforce_piecewise_cuda_graph", "triton_attention_reduce_in_fp32", "enable_deepep_moe"),
    *("flashinfer_mla_disable_ragged", "disable_shared_experts_fusion", "enable_flashinfer_mla"),
    *("disable_chunked_prefix_cache", "disable_fast_image_processor", "enable_trace"),
    *("keep_mm_feature_on_device", "enable_attn_tp_input_scattered", "enable_fused_qk_norm_rope"),
    *("enable_dynamic_batch_tokenizer", "disaggregation_decode_enable_offload_kvcache"),
)
_IDLE = (
    *("prefill_max_requests", "priority_scheduling_preemption_threshold", "swa_full_tokens_ratio"),
    *("radix_eviction_policy", "prefill_delayer_max_delay_passes", "pp_async_batch_depth"),
    *("soft_watchdog_timeout", "log_requests_format", "crash_dump_folder", "weight_version"),
    *("gc_warning_threshold_secs", "prefill_attention_backend", "decode_attention_backend"),
    *("fp8_gemm_backend", "fp4_gemm_backend", "fp8_gemm_runner_backend", "nccl_port"),
    *("max_loras_per_batch", "max_loaded_loras", "lora_eviction_policy", "lora_backend"),
    *("max_lora_chunk_size", "deepep_mode", "deepep_config", "ep_num_redundant_experts"),
    *("ep_dispatch_algorithm", "init_expert_location", "eplb_algorithm", "load_balance_method"),
    *("eplb_rebalance_num_iterations", "max_mamba_cache_size", "mamba_full_memory_ratio"),
    *("mamba_scheduler_strategy", "hicache_ratio", "hicache_size", "hicache_write_policy"),
    *("hicache_io_backend", "hicache_mem_layout", "hicache_storage_backend"),
    *("hicache_storage_prefetch_policy", "hicache_storage_backend_extra_config"),
    *("disaggregation_transfer_backend", "disaggregation_ib_device", "mooncake_ib_device"),
    *("num_reserved_decode_tokens", "torch_compile_max_bs", "piecewise_cuda_graph_max_tokens"),
    *("piecewise_cuda_graph_tokens", "piecewise_cuda_graph_compiler", "scheduler_recv_interval"),
    *("triton_attention_num_kv_splits", "triton_attention_split_tile_size", "moe_dense_tp_size"),
    *("num_continuous_decode_steps", "dynamic_batch_tokenizer_batch_size"),
    *("dynamic_batch_tokenizer_batch_timeout", "tokenizer_metrics_custom_labels_header"),
    *("speculative_attention_mode", "speculative_draft_attention_backend"),
    *("speculative_moe_runner_backend", "speculative_moe_a2a_backend"),
)
_IDLE_LISTS = (
    *("bucket_time_to_first_token", "bucket_inter_token_latency", "bucket_e2e_request_latency"),
    *("prompt_tokens_buckets", "generation_tokens_buckets", "numa_node", "lora_target_modules"),
    "tokenizer_metrics_allowed_custom_labels",
)
_SPECULATIVE = (
    *("speculative_draft_model", "speculative_draft_model_revision", "speculative_token_map"),
    *("speculative_draft_load_format", "speculative_draft_model_quantization"),
    *("speculative_ngram_min_bfs_breadth", "speculative_ngram_max_bfs_breadth"),
    *("speculative_ngram_match_type", "speculative_ngram_max_trie_depth"),
    *("speculative_ngram_capacity", "speculative_ngram_branch_length"),
)
_MODELOPT = (
    *("modelopt_quant", "modelopt_checkpoint_restore_path", "modelopt_checkpoint_save_path"),
    "modelopt_export_path",
)

SGLANG_OPTIONS: Mapping[str, OtherOption] = {
    **dict.fromkeys(_IDLE_FLAGS, OtherOption(is_flag=True)),
    **dict.fromkeys(_IDLE, NOTHING),
    **dict.fromkeys(_IDLE_LISTS, OtherOption(takes_many=True)),
    **dict.fromkeys(_SPECULATIVE, OtherOption("use {spec}")),
    "enable_multi_layer_eagle": only_off("use {spec}"),
    **dict.fromkeys(
        ("speculative_accept_threshold_single", "speculative_accept_threshold_acc"),
        OtherOption(_EXACT, ("1", "1.0")),
    ),
    "fastapi_root_path": called("root_path"),
    "pp_max_micro_batch_size": called("num_micro_batches"),
    "dist_timeout": called("rank_timeout_s"),
    "nccl_init_addr": called("rank_address"),
    "expert_parallel_size": OtherOption("use {enable_expert_parallel}", ("1",)),
    **dict.fromkeys(
        ("attention_context_parallel_size", "attn_cp_size", "moe_data_parallel_size"),
        OtherOption(_DIVIDED, ("1",)),
    ),
    "moe_dp_size": OtherOption(_DIVIDED, ("1",)),
    "base_gpu_id": OtherOption(_GPUS, ("0",)),
    "gpu_id_step": OtherOption(_GPUS, ("1",)),
    "uvicorn_access_log_exclude_prefixes": OtherOption(
        "use {disable_uvicorn_access_log}", takes_many=True
    ),
    "log_requests_target": OtherOption(
        "the log goes to standard error: send that where you want it", ("stdout",), takes_many=True
    ),
    "export_metrics_to_file": only_off(_METRICS_FILE),
    "export_metrics_to_file_dir": OtherOption(_METRICS_FILE),
    "grpc_mode": only_off("the server speaks only HTTP"),
    "hf_chat_template_name": called("chat_template"),
    "completion_template": OtherOption("a completion's prompt is continued as it is: leave it out"),
    **dict.fromkeys(_MODELOPT, OtherOption(_CHECKPOINT)),
    "quantize_and_serve": only_off(_CHECKPOINT),
    **dict.fromkeys(("enable_memory_saver", "enable_weights_cpu_backup"), only_off(_SLEEP)),
    "enable_return_hidden_states": only_off("hidden states are not returned: leave it out"),
    "enable_deterministic_inference": only_off(
        "there is no such mode: give requests a seed, and expect batches of another size to round "
        "differently"
    ),
    "encoder_only": only_off(TEXT_ONLY),
    "kt_weight_path": OtherOption(_OFFLOADED, EMPTY),
    "disaggregation_bootstrap_port": called("kv_transfer_address"),
    "ssl_keyfile_password": OtherOption("give a key file that is not encrypted"),
}
"""Options that vLLM and TensorRT-LLM do not have."""
