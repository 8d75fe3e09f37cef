"""Owns the shapes of Qwen3-30B-A3B, and of a draft head as they are published for it; with the
vocabulary of the other benchmarks, which is a sixth smaller."""

from __future__ import annotations

from typing import Any

from benchmarks.models.llama_8b import LLAMA_1B, LLAMA_8B, Shapes

_QWEN3_30B: dict[str, Any] = dict(
    architectures=["Qwen3MoeForCausalLM"],
    hidden_size=2048,
    intermediate_size=6144,
    moe_intermediate_size=768,
    num_experts=128,
    num_experts_per_tok=8,
    norm_topk_prob=True,
    num_hidden_layers=48,
    num_attention_heads=32,
    num_key_value_heads=4,
    head_dim=128,
    vocab_size=LLAMA_8B["vocab_size"],
    rms_norm_eps=1e-6,
    rope_theta=1e6,
    max_position_embeddings=40_960,
    tie_word_embeddings=False,
)
_HEAD = LLAMA_8B | dict(hidden_size=2048, intermediate_size=6144, num_key_value_heads=4)
_TINY = dict(
    hidden_size=64,
    moe_intermediate_size=32,
    num_experts=8,
    num_experts_per_tok=2,
    num_hidden_layers=6,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=16,
)

QWEN3_30B = Shapes(_QWEN3_30B, _HEAD, LLAMA_1B)
TINY_EXPERTS = Shapes(
    _QWEN3_30B | _TINY,
    _HEAD | dict(hidden_size=64, num_attention_heads=4, num_key_value_heads=2, head_dim=16),
    LLAMA_1B,
)
