"""Families beside Llama that go through the engine: configuration, model, and settings beside
tiny.SETTINGS."""

from __future__ import annotations

from typing import Any

import tiny
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    Glm4Config,
    Glm4ForCausalLM,
    GlmConfig,
    GlmForCausalLM,
    GptOssConfig,
    GptOssForCausalLM,
    GraniteConfig,
    GraniteForCausalLM,
    GraniteMoeHybridConfig,
    GraniteMoeHybridForCausalLM,
    Ministral3Config,
    Ministral3ForCausalLM,
    MinistralConfig,
    MinistralForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    Olmo2Config,
    Olmo2ForCausalLM,
    Olmo3Config,
    Olmo3ForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
    SmolLM3Config,
    SmolLM3ForCausalLM,
)

_GRANITE = {
    "embedding_multiplier": 12.0,
    "attention_multiplier": 0.25,
    "residual_multiplier": 0.5,
    "logits_scaling": 8.0,
}
_GLM = {
    "pad_token_id": None,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 1e4,
        "partial_rotary_factor": 0.5,
    },
}
_WINDOWS = ["sliding_attention", "full_attention", "sliding_attention"]
_FOUR_LAYERS = {"num_hidden_layers": 4, "pad_token_id": None}
"""Fields of a model of four layers, of which the last differs from the rest."""

FAMILIES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "mistral": (MistralConfig, MistralForCausalLM, {"sliding_window": 9}),
    "qwen2": (
        Qwen2Config,
        Qwen2ForCausalLM,
        {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 2},
    ),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, {"attention_bias": True}),
    "glm4": (GlmConfig, GlmForCausalLM, _GLM),
    "glm4-0414": (Glm4Config, Glm4ForCausalLM, _GLM),
    "granite4": (
        GraniteMoeHybridConfig,
        GraniteMoeHybridForCausalLM,
        {
            **_GRANITE,
            "num_local_experts": 0,
            "num_experts_per_tok": 0,
            "shared_intermediate_size": 48,
            "layer_types": ["full_attention"] * tiny.NUM_LAYERS,
            "position_embedding_type": "rope",
            "mamba_n_heads": 8,
        },
    ),
    "olmo2": (Olmo2Config, Olmo2ForCausalLM, {"pad_token_id": None}),
    "smollm3": (SmolLM3Config, SmolLM3ForCausalLM, _FOUR_LAYERS),
    "ministral": (
        MinistralConfig,
        MinistralForCausalLM,
        {"pad_token_id": None, "sliding_window": 9, "layer_types": _WINDOWS},
    ),
    "gemma3": (
        Gemma3TextConfig,
        Gemma3ForCausalLM,
        {
            "num_hidden_layers": 6,
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
        _GRANITE,
    ),
    "olmo3": (Olmo3Config, Olmo3ForCausalLM, {**_FOUR_LAYERS, "sliding_window": 9}),
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
