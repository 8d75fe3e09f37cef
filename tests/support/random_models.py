"""Random models of every family, in the settings that its checkpoints have."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import PreTrainedModel

LENGTH, VOCAB_SIZE = 60, 97


def _family(name: str, config: str | None = None) -> tuple[Any, Any]:
    """The classes of configuration and model. config: name of the configuration's class, if it
    differs from the model's"""
    model = getattr(transformers, f"{name}ForCausalLM")
    return getattr(transformers, config or f"{name}Config"), model


LLAMA = _family("Llama")
MISTRAL = _family("Mistral")
MIXTRAL = _family("Mixtral")
QWEN2 = _family("Qwen2")
QWEN3 = _family("Qwen3")
QWEN3_MOE = _family("Qwen3Moe")
QWEN3_NEXT = _family("Qwen3Next")
QWEN3_5 = _family("Qwen3_5", "Qwen3_5TextConfig")
QWEN3_5_MOE = _family("Qwen3_5Moe", "Qwen3_5MoeTextConfig")
GEMMA2 = _family("Gemma2")
GEMMA3 = _family("Gemma3", "Gemma3TextConfig")
GEMMA4 = _family("Gemma4", "Gemma4TextConfig")
GEMMA4_UNIFIED = _family("Gemma4Unified", "Gemma4UnifiedTextConfig")
GPT_OSS = _family("GptOss")
PHI3 = _family("Phi3")
GLM = _family("Glm")
GLM4 = _family("Glm4")
GLM4_MOE = _family("Glm4Moe")
GLM4_MOE_LITE = _family("Glm4MoeLite")
DEEPSEEK2 = _family("DeepseekV2")
DEEPSEEK3 = _family("DeepseekV3")
GRANITE = _family("Granite")
GRANITE_HYBRID = _family("GraniteMoeHybrid")
OLMO2 = _family("Olmo2")
OLMO3 = _family("Olmo3")
OLMOE = _family("Olmoe")
SMOLLM3 = _family("SmolLM3")
MINISTRAL = _family("Ministral")
MINISTRAL3 = _family("Ministral3")
MINIMAX_M2 = _family("MiniMaxM2")

NO_PAD = {"pad_token_id": None, "eos_token_id": 2, "bos_token_id": 1}
GRANITE_FACTORS = {
    "embedding_multiplier": 12.0,
    "attention_multiplier": 0.0625,
    "residual_multiplier": 0.22,
    "logits_scaling": 10.0,
}
LONG_ROPE = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "short_factor": [1.0, 1.1, 1.3, 1.5, 1.7, 2.0],
    "long_factor": [1.0, 2.0, 5.0, 9.0, 14.0, 25.0],
    "partial_rotary_factor": 0.75,
    "original_max_position_embeddings": 32,
}
"""The rope of heads of 16 as Phi-4-mini has it, three quarters of which turn."""

WIDE_LONG_ROPE = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "short_factor": [1.0] * 8,
    "long_factor": [1.0, 1.5, 2.0, 3.0, 5.0, 9.0, 14.0, 25.0],
    "original_max_position_embeddings": 32,
}
"""The same of heads of 16 all of which turn."""

GLM4_MOE_SETTINGS = {
    "head_dim": 24,
    "n_routed_experts": 6,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 32,
    "routed_scaling_factor": 2.5,
    "num_nextn_predict_layers": 1,
}

LATENT_SETTINGS = {
    "num_key_value_heads": 4,
    "kv_lora_rank": 40,
    "q_lora_rank": None,
    "qk_nope_head_dim": 20,
    "qk_rope_head_dim": 12,
    "v_head_dim": 28,
    "n_routed_experts": 8,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 32,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "num_nextn_predict_layers": 1,
}

DEEPSEEK3_SETTINGS = {**LATENT_SETTINGS, "q_lora_rank": 24, "n_group": 4, "topk_group": 2}

LATENT_IN_GROUPS = {
    **LATENT_SETTINGS,
    "kv_lora_rank": 32,
    "q_lora_rank": 32,
    "qk_nope_head_dim": 24,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
}
"""Sizes that can be put into groups of 32."""

GLM_ROPE = {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}

LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 500.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}

LINEAR_SETTINGS = {
    "head_dim": 24,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 8,
    "linear_key_head_dim": 12,
    "linear_value_head_dim": 20,
    "initializer_range": 0.1,
    "layer_types": ["linear_attention", "linear_attention", "full_attention"],
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 1e4,
        "partial_rotary_factor": 0.25,
        "mrope_section": [1, 1, 1],
        "mrope_interleaved": True,
    },
}

LINEAR_EXPERTS = {**LINEAR_SETTINGS, "shared_expert_intermediate_size": 36}

YARN_ROPE = {
    "rope_type": "yarn",
    "rope_theta": 1000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 16,
}

GEMMA4_SETTINGS = {
    "head_dim": 16,
    "global_head_dim": 32,
    "num_global_key_value_heads": 1,
    "attention_k_eq_v": True,
    "hidden_size_per_layer_input": 0,
    "sliding_window": 7,
    "final_logit_softcapping": 3.0,
}
"""Of a dense Gemma 4."""

GEMMA4_EXPERTS = {
    "enable_moe_block": True,
    "num_experts": 6,
    "top_k_experts": 3,
    "moe_intermediate_size": 20,
}
GEMMA4_SMALL = {
    **GEMMA4_SETTINGS,
    "attention_k_eq_v": False,
    "num_key_value_heads": 1,
    "hidden_size_per_layer_input": 12,
    "vocab_size_per_layer_input": VOCAB_SIZE,
    "num_hidden_layers": 6,
    "num_kv_shared_layers": 3,
    "use_double_wide_mlp": True,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"] * 2,
}
"""Of a small Gemma 4, as E2B is; the last layer sees all tokens."""

_TWO_KINDS = ["sliding_attention", "sliding_attention", "full_attention"]

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
    "qwen3.5": (QWEN3_5, LINEAR_SETTINGS),
    "qwen3.5-linear-end": (
        QWEN3_5,
        {
            **LINEAR_SETTINGS,
            "layer_types": ["full_attention", "linear_attention", "linear_attention"],
            "linear_num_value_heads": 2,
            "linear_conv_kernel_dim": 3,
            "tie_word_embeddings": True,
            "attention_bias": True,
        },
    ),
    "qwen3.5-moe": (QWEN3_5_MOE, {**LINEAR_EXPERTS, **EXPERTS}),
    "qwen3-next": (
        QWEN3_NEXT,
        {
            **LINEAR_EXPERTS,
            **EXPERTS,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1e4,
                "partial_rotary_factor": 0.25,
            },
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
    "gemma2": (
        GEMMA2,
        {
            "head_dim": 24,
            "query_pre_attn_scalar": 16,
            "sliding_window": 7,
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 3.0,
            "attn_implementation": "eager",
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
    "gemma4": (GEMMA4, {**GEMMA4_SETTINGS, "num_hidden_layers": 7}),
    "gemma4-values": (
        GEMMA4,
        {
            **GEMMA4_SETTINGS,
            "attention_k_eq_v": False,
            "attention_bias": True,
            "tie_word_embeddings": False,
            "layer_types": ["full_attention", "sliding_attention", "full_attention"],
            "rope_parameters": {
                "full_attention": {
                    "rope_type": "proportional",
                    "partial_rotary_factor": 0.5,
                    "rope_theta": 1e3,
                    "factor": 2.0,
                },
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e3},
            },
        },
    ),
    "gemma4-experts": (GEMMA4, {**GEMMA4_SETTINGS, **GEMMA4_EXPERTS, "layer_types": _TWO_KINDS}),
    "gemma4-e2b": (GEMMA4, GEMMA4_SMALL),
    "gemma4-unified": (
        GEMMA4_UNIFIED,
        {
            **GEMMA4_SETTINGS,
            "num_global_key_value_heads": 2,
            "layer_types": _TWO_KINDS,
        },
    ),
    "phi3": (PHI3, {**NO_PAD, "sliding_window": 9}),
    "phi4-mini": (
        PHI3,
        {
            **NO_PAD,
            "tie_word_embeddings": True,
            "original_max_position_embeddings": 32,
            "rope_parameters": LONG_ROPE,
        },
    ),
    "phi4-mini-short": (
        PHI3,
        {
            **NO_PAD,
            "original_max_position_embeddings": 128,
            "rope_parameters": {**LONG_ROPE, "original_max_position_embeddings": 128},
        },
    ),
    "glm4": (GLM, {**NO_PAD, "head_dim": 20, "rope_parameters": GLM_ROPE}),
    "glm4-0414": (GLM4, {**NO_PAD, "head_dim": 24, "rope_parameters": GLM_ROPE}),
    "glm4-moe": (GLM4_MOE, GLM4_MOE_SETTINGS),
    "glm4-moe-norms": (
        GLM4_MOE,
        {
            **GLM4_MOE_SETTINGS,
            "use_qk_norm": True,
            "attention_bias": True,
            "n_shared_experts": 2,
            "first_k_dense_replace": 0,
            "norm_topk_prob": False,
        },
    ),
    "glm4-moe-lite": (
        GLM4_MOE_LITE,
        {**LATENT_SETTINGS, **NO_PAD, "q_lora_rank": 24, "mlp_layer_types": None},
    ),
    "deepseek2": (
        DEEPSEEK2,
        {
            **DEEPSEEK3_SETTINGS,
            "topk_method": "group_limited_greedy",
            "n_shared_experts": 1,
            "routed_scaling_factor": 1.5,
        },
    ),
    "deepseek2-lite": (
        DEEPSEEK2,
        {**LATENT_SETTINGS, "first_k_dense_replace": 0, "n_group": 4, "topk_group": 1},
    ),
    "deepseek3": (
        DEEPSEEK3,
        {
            **DEEPSEEK3_SETTINGS,
            "rope_parameters": {**YARN_ROPE, "mscale": 0.8, "mscale_all_dim": 1.2},
        },
    ),
    "deepseek3-halves": (
        DEEPSEEK3,
        {**LATENT_SETTINGS, "rope_interleave": False, "n_shared_experts": 2},
    ),
    "deepseek3-dense": (DEEPSEEK3, {**LATENT_IN_GROUPS, "first_k_dense_replace": 3}),
    "granite3": (GRANITE, {**NO_PAD, **GRANITE_FACTORS, "tie_word_embeddings": True}),
    "granite4": (
        GRANITE_HYBRID,
        {
            **NO_PAD,
            **GRANITE_FACTORS,
            "num_local_experts": 0,
            "num_experts_per_tok": 0,
            "shared_intermediate_size": 48,
            "layer_types": ["full_attention"] * 3,
            "position_embedding_type": "rope",
        },
    ),
    "granite4-without-positions": (
        GRANITE_HYBRID,
        {
            **NO_PAD,
            **GRANITE_FACTORS,
            "num_local_experts": 0,
            "shared_intermediate_size": 48,
            "layer_types": ["full_attention"] * 3,
        },
    ),
    "olmo2": (OLMO2, NO_PAD),
    "olmo3": (
        OLMO3,
        {
            **NO_PAD,
            "sliding_window": 7,
            "num_hidden_layers": 4,
            "rope_parameters": {
                "full_attention": YARN_ROPE,
                "sliding_attention": {"rope_type": "default", "rope_theta": 5e5},
            },
        },
    ),
    "olmoe": (OLMOE, {**NO_PAD, "num_experts": 6, "num_experts_per_tok": 2}),
    "olmoe-normalised": (
        OLMOE,
        {
            **NO_PAD,
            "num_experts": 4,
            "num_experts_per_tok": 3,
            "norm_topk_prob": True,
            "attention_bias": True,
        },
    ),
    "smollm3": (SMOLLM3, {**NO_PAD, "num_hidden_layers": 4}),
    "smollm3-window": (
        SMOLLM3,
        {**NO_PAD, "no_rope_layers": [1, 0, 1], "use_sliding_window": True, "sliding_window": 7},
    ),
    "smollm3-longrope": (
        SMOLLM3,
        {
            **NO_PAD,
            "no_rope_layers": [1, 0, 1],
            "rope_parameters": WIDE_LONG_ROPE,
        },
    ),
    "ministral": (
        MINISTRAL,
        {
            **NO_PAD,
            "head_dim": 16,
            "sliding_window": 7,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        },
    ),
    "minimax-m2": (
        MINIMAX_M2,
        {
            **NO_PAD,
            "head_dim": 24,
            "rotary_dim": 12,
            "num_local_experts": 6,
            "num_experts_per_tok": 3,
        },
    ),
    "ministral3": (
        MINISTRAL3,
        {
            **NO_PAD,
            "head_dim": 24,
            "rope_parameters": {
                **YARN_ROPE,
                "mscale": 1.0,
                "mscale_all_dim": 1.0,
                "llama_4_scaling_beta": 0.1,
            },
        },
    ),
}


QUANTIZED = (
    "llama",
    "mistral",
    "qwen2",
    "qwen3",
    "gemma2",
    "gemma3",
    "gemma4",
    "gemma4-unified",
    "phi3",
    "qwen3.5",
    "glm4",
    "glm4-0414",
    "deepseek3-dense",
    "granite3",
    "granite4",
    "olmo2",
    "olmo3",
    "smollm3",
    "ministral",
    "ministral3",
)
"""The cases in which each dense family is quantized."""


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
    for name, stored in model.state_dict().items():
        if name.endswith("e_score_correction_bias"):  # a buffer
            stored.uniform_(-0.2, 0.2)
        if name.endswith("layer_scalar"):
            stored.uniform_(0.6, 1.2)
    return model


def tokens(*shape: int) -> Tensor:
    return torch.randint(0, VOCAB_SIZE, shape, generator=torch.Generator().manual_seed(1))
