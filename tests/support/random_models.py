"""Random models of every family, in the settings that its checkpoints have."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import (
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GptOssConfig,
    GptOssForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    PreTrainedModel,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

LENGTH, VOCAB_SIZE = 60, 97

LLAMA, MISTRAL, MIXTRAL, QWEN2, QWEN3, QWEN3_MOE, GEMMA3, GPT_OSS = (
    (LlamaConfig, LlamaForCausalLM),
    (MistralConfig, MistralForCausalLM),
    (MixtralConfig, MixtralForCausalLM),
    (Qwen2Config, Qwen2ForCausalLM),
    (Qwen3Config, Qwen3ForCausalLM),
    (Qwen3MoeConfig, Qwen3MoeForCausalLM),
    (Gemma3TextConfig, Gemma3ForCausalLM),
    (GptOssConfig, GptOssForCausalLM),
)

LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}

YARN_ROPE = {
    "rope_type": "yarn",
    "rope_theta": 1000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 16,
}

EXPERTS = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 20}

GPT_OSS_SETTINGS = {
    "num_local_experts": 6,
    "num_experts_per_tok": 2,
    "head_dim": 24,
    "sliding_window": 7,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
}

CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "llama": (LLAMA, {}),
    "llama-tied": (LLAMA, {"tie_word_embeddings": True}),
    "llama-biases": (LLAMA, {"attention_bias": True, "mlp_bias": True, "num_key_value_heads": 4}),
    "llama-head_dim": (LLAMA, {"head_dim": 20, "num_key_value_heads": 1}),
    "llama-linear": (
        LLAMA,
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 3.0}},
    ),
    "llama-dynamic": (
        LLAMA,
        {"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 3.0}},
    ),
    "llama-llama3": (LLAMA, {"rope_parameters": LLAMA3_ROPE}),
    "llama-yarn": (LLAMA, {"rope_parameters": YARN_ROPE}),
    "llama-yarn-factor": (
        LLAMA,
        {
            "rope_parameters": {
                **YARN_ROPE,
                "attention_factor": 1.5,
                "beta_fast": 16.0,
                "beta_slow": 2.0,
            }
        },
    ),
    "llama-yarn-mscale": (
        LLAMA,
        {"rope_parameters": {**YARN_ROPE, "mscale": 1.2, "mscale_all_dim": 0.7, "truncate": False}},
    ),
    "mistral-window": (MISTRAL, {"sliding_window": 7}),
    "mistral": (MISTRAL, {"sliding_window": None}),
    "qwen2": (QWEN2, {}),
    "qwen2-window": (
        QWEN2,
        {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 2},
    ),
    "qwen2.5-tied": (
        QWEN2,
        {"tie_word_embeddings": True, "rope_parameters": {**YARN_ROPE, "rope_theta": 1e6}},
    ),
    "qwen3": (QWEN3, {"head_dim": 24}),
    "qwen3-window": (
        QWEN3,
        {
            "head_dim": 24,
            "attention_bias": True,
            "use_sliding_window": True,
            "sliding_window": 5,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        },
    ),
    "qwen3-moe": (QWEN3_MOE, {**EXPERTS, "head_dim": 24, "norm_topk_prob": True}),
    "qwen3-moe-some-layers": (
        QWEN3_MOE,
        {
            **EXPERTS,
            "num_hidden_layers": 4,
            "decoder_sparse_step": 2,
            "mlp_only_layers": [3],
            "attention_bias": True,
            "use_sliding_window": True,
            "sliding_window": 7,
        },
    ),
    "mixtral": (MIXTRAL, {"num_local_experts": 5, "num_experts_per_tok": 2}),
    "mixtral-window": (MIXTRAL, {"num_local_experts": 3, "sliding_window": 7}),
    "gpt-oss": (GPT_OSS, GPT_OSS_SETTINGS),
    "gpt-oss-yarn": (
        GPT_OSS,
        {
            **GPT_OSS_SETTINGS,
            "swiglu_limit": 0.5,
            "rope_parameters": {**YARN_ROPE, "truncate": False, "beta_fast": 32.0},
        },
    ),
    "gemma3": (
        GEMMA3,
        {
            "head_dim": 24,
            "query_pre_attn_scalar": 40,
            "sliding_window": 7,
            "num_hidden_layers": 7,
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
            },
        },
    ),
    "gemma3-biases": (
        GEMMA3,
        {
            "head_dim": 16,
            "attention_bias": True,
            "tie_word_embeddings": False,
            "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
            "sliding_window": 5,
        },
    ),
}


def random_model(family: Any, **settings: Any) -> PreTrainedModel:
    """A small model in which every weight matters: norms and biases are random too."""
    torch.manual_seed(0)
    config_class, model_class = family
    config = config_class(
        **{
            "vocab_size": VOCAB_SIZE,
            "hidden_size": 64,
            "intermediate_size": 48,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 128,
            "rms_norm_eps": 1e-5,
            "initializer_range": 0.25,
            "attn_implementation": "eager",
            **settings,
        }
    )
    model = model_class(config).eval()
    for parameter in model.parameters():
        if parameter.dim() == 1:
            parameter.data.uniform_(-1.0, 1.5)
    return model


def tokens(*shape: int) -> Tensor:
    return torch.randint(0, VOCAB_SIZE, shape, generator=torch.Generator().manual_seed(1))
