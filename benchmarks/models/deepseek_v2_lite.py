"""Owns the shapes of DeepSeek-V2-Lite, whose attention is latent, and of a draft head for it; with
the vocabulary of the other benchmarks, which is a quarter larger."""

from __future__ import annotations

from typing import Any

from benchmarks.models.llama_8b import LLAMA_1B, LLAMA_8B, Shapes

_V2_LITE: dict[str, Any] = dict(
    architectures=["DeepseekV2ForCausalLM"],
    hidden_size=2048,
    intermediate_size=10944,
    moe_intermediate_size=1408,
    n_routed_experts=64,
    n_shared_experts=2,
    num_experts_per_tok=6,
    first_k_dense_replace=1,
    num_hidden_layers=27,
    num_attention_heads=16,
    num_key_value_heads=16,
    kv_lora_rank=512,
    q_lora_rank=None,
    qk_nope_head_dim=128,
    qk_rope_head_dim=64,
    v_head_dim=128,
    vocab_size=LLAMA_8B["vocab_size"],
    rms_norm_eps=1e-6,
    rope_theta=1e4,
    max_position_embeddings=163_840,
    tie_word_embeddings=False,
    rope_scaling=dict(
        rope_type="yarn",
        factor=40,
        original_max_position_embeddings=4096,
        beta_fast=32,
        beta_slow=1,
        mscale=0.707,
        mscale_all_dim=0.707,
    ),
)
_HEAD = LLAMA_8B | dict(hidden_size=2048, intermediate_size=6144, num_key_value_heads=4)
_TINY = dict(
    hidden_size=64,
    intermediate_size=64,
    moe_intermediate_size=32,
    n_routed_experts=8,
    num_experts_per_tok=2,
    num_hidden_layers=6,
    num_attention_heads=4,
    num_key_value_heads=4,
    kv_lora_rank=32,
    qk_nope_head_dim=16,
    qk_rope_head_dim=16,
    v_head_dim=16,
)

DEEPSEEK_V2_LITE = Shapes(_V2_LITE, _HEAD, LLAMA_1B)
TINY_LATENT = Shapes(
    _V2_LITE | _TINY,
    _HEAD | dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2, head_dim=16),
    LLAMA_1B,
)
