"""Families beside Llama that go through the engine: configuration, model, and settings beside
tiny.SETTINGS."""

from __future__ import annotations

from typing import Any

from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GptOssConfig,
    GptOssForCausalLM,
    GraniteConfig,
    GraniteForCausalLM,
    Ministral3Config,
    Ministral3ForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    Olmo3Config,
    Olmo3ForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

FAMILIES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "gemma3": (
        Gemma3TextConfig,
        Gemma3ForCausalLM,
        {
            "query_pre_attn_scalar": 8,
            "sliding_window": 9,
            "pad_token_id": None,
            "tie_word_embeddings": False,
        },
    ),
    "phi3": (
        Phi3Config,
        Phi3ForCausalLM,
        {
            "pad_token_id": None,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1e4,
                "partial_rotary_factor": 0.75,
            },
        },
    ),
    "granite3": (
        GraniteConfig,
        GraniteForCausalLM,
        {
            "embedding_multiplier": 12.0,
            "attention_multiplier": 0.25,
            "residual_multiplier": 0.5,
            "logits_scaling": 8.0,
        },
    ),
    "olmo3": (Olmo3Config, Olmo3ForCausalLM, {"pad_token_id": None, "sliding_window": 9}),
    "ministral3": (
        Ministral3Config,
        Ministral3ForCausalLM,
        {
            "pad_token_id": None,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 1e4,
                "factor": 16.0,
                "original_max_position_embeddings": 16,
                "llama_4_scaling_beta": 0.1,
            },
        },
    ),
    "qwen3-moe": (
        Qwen3MoeConfig,
        Qwen3MoeForCausalLM,
        {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    ),
    "mixtral": (MixtralConfig, MixtralForCausalLM, {"num_local_experts": 4}),
    "gpt-oss": (
        GptOssConfig,
        GptOssForCausalLM,
        {
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "sliding_window": 9,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
            "attn_implementation": "eager",
        },
    ),
}
