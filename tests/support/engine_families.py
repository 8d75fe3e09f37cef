"""Families beside Llama that go through the engine: configuration, model, and settings beside
tiny.SETTINGS."""

from __future__ import annotations

from typing import Any

import tiny
from random_models import (
    DEEPSEEK2,
    DEEPSEEK3,
    DEEPSEEK3_SETTINGS,
    EXPERTS,
    GEMMA2,
    GEMMA3,
    GEMMA4,
    GEMMA4_EXPERTS,
    GEMMA4_SETTINGS,
    GEMMA4_SMALL,
    GEMMA4_UNIFIED,
    GLM,
    GLM4,
    GLM4_MOE,
    GLM4_MOE_LITE,
    GLM4_MOE_SETTINGS,
    GPT_OSS,
    GRANITE,
    GRANITE_HYBRID,
    LATENT_SETTINGS,
    LINEAR_EXPERTS,
    LINEAR_SETTINGS,
    MINIMAX_M2,
    MINISTRAL,
    MINISTRAL3,
    MISTRAL,
    MIXTRAL,
    OLMO2,
    OLMO3,
    OLMOE,
    PHI3,
    QWEN2,
    QWEN3,
    QWEN3_5,
    QWEN3_5_MOE,
    QWEN3_MOE,
    QWEN3_NEXT,
    SMOLLM3,
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
_BYTES = {"pad_token_id": None, "eos_token_id": 2, "bos_token_id": 1}
_LINEAR = {"pad_token_id": None, "bos_token_id": None}
_WIDE = {"initializer_range": 1.0}
"""So wide that outputs repeat themselves, and drafts of earlier text are accepted."""
_WINDOWS = ["sliding_attention", "full_attention", "sliding_attention"]
_FOUR_LAYERS = {"num_hidden_layers": 4, "pad_token_id": None}
"""Fields of a model of four layers, of which the last differs from the rest."""

FAMILIES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "mistral": (*MISTRAL, {"sliding_window": 9}),
    "qwen2": (
        *QWEN2,
        {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 2},
    ),
    "qwen3": (*QWEN3, {"attention_bias": True}),
    "glm4": (*GLM, _GLM),
    "glm4-0414": (*GLM4, _GLM),
    "granite4": (
        *GRANITE_HYBRID,
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
    "olmo2": (*OLMO2, {"pad_token_id": None}),
    "smollm3": (*SMOLLM3, _FOUR_LAYERS),
    "ministral": (
        *MINISTRAL,
        {"pad_token_id": None, "sliding_window": 9, "layer_types": _WINDOWS},
    ),
    "gemma2": (
        *GEMMA2,
        {
            "query_pre_attn_scalar": 8,
            "sliding_window": 9,
            "attn_logit_softcapping": 2.0,
            "pad_token_id": None,
            "tie_word_embeddings": False,
            "attn_implementation": "eager",
        },
    ),
    "gemma3": (
        *GEMMA3,
        {
            "num_hidden_layers": 6,
            "query_pre_attn_scalar": 8,
            "sliding_window": 9,
            "pad_token_id": None,
            "tie_word_embeddings": False,
        },
    ),
    "gemma4": (
        *GEMMA4,
        {**GEMMA4_SETTINGS, "num_global_key_value_heads": 2, "num_hidden_layers": 6, **_BYTES},
    ),
    "gemma4-e2b": (
        *GEMMA4,
        {**GEMMA4_SMALL, **_BYTES, "vocab_size_per_layer_input": tiny.VOCAB_SIZE},
    ),
    "gemma4-experts": (
        *GEMMA4,
        {
            **GEMMA4_SETTINGS,
            **GEMMA4_EXPERTS,
            **_BYTES,
            "num_global_key_value_heads": 2,
            "layer_types": ["sliding_attention", "full_attention", "full_attention"],
        },
    ),
    "gemma4-unified": (
        *GEMMA4_UNIFIED,
        {
            **GEMMA4_SETTINGS,
            **_BYTES,
            "num_global_key_value_heads": 2,
            "layer_types": ["sliding_attention", "full_attention", "full_attention"],
        },
    ),
    "phi3": (
        *PHI3,
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
        *GRANITE,
        _GRANITE,
    ),
    "olmo3": (*OLMO3, {**_FOUR_LAYERS, "sliding_window": 9}),
    "ministral3": (
        *MINISTRAL3,
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
        *QWEN3_MOE,
        {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    ),
    "qwen3.5": (*QWEN3_5, {**_LINEAR, **LINEAR_SETTINGS, **_WIDE}),
    "qwen3-next": (*QWEN3_NEXT, {**_LINEAR, **LINEAR_EXPERTS, **EXPERTS, **_WIDE}),
    "qwen3.5-moe": (
        *QWEN3_5_MOE,
        {**_LINEAR, **LINEAR_EXPERTS, **EXPERTS, "initializer_range": 0.5},
    ),
    "olmoe": (*OLMOE, {"pad_token_id": None, "num_experts": 6, "num_experts_per_tok": 2}),
    "mixtral": (*MIXTRAL, {"num_local_experts": 4}),
    "glm4-moe": (*GLM4_MOE, {**GLM4_MOE_SETTINGS, "head_dim": 16}),
    "glm4-moe-lite": (
        *GLM4_MOE_LITE,
        {**LATENT_SETTINGS, **_BYTES, "head_dim": 12, "q_lora_rank": 24},
    ),
    "deepseek2": (*DEEPSEEK2, {**LATENT_SETTINGS, "head_dim": 12, "n_shared_experts": 1}),
    "deepseek3": (*DEEPSEEK3, {**DEEPSEEK3_SETTINGS, "head_dim": 12}),
    "minimax-m2": (
        *MINIMAX_M2,
        {
            **_BYTES,
            "head_dim": 16,
            "rotary_dim": 8,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
        },
    ),
    "gpt-oss": (
        *GPT_OSS,
        {
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "sliding_window": 9,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
            "attn_implementation": "eager",
        },
    ),
}
