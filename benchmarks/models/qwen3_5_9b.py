"""Owns the shapes of Qwen3.5-9B, three quarters of whose layers attend linearly, and of a head for
it; with the vocabulary of the other benchmarks, which is half as large."""

from __future__ import annotations

from typing import Any

from benchmarks.models.llama_8b import LLAMA_1B, LLAMA_8B, TINY, Shapes

_9B: dict[str, Any] = dict(
    architectures=["Qwen3_5ForCausalLM"],
    hidden_size=4096,
    intermediate_size=12288,
    num_hidden_layers=32,
    num_attention_heads=16,
    num_key_value_heads=4,
    head_dim=256,
    full_attention_interval=4,
    linear_num_key_heads=16,
    linear_num_value_heads=32,
    linear_key_head_dim=128,
    linear_value_head_dim=128,
    linear_conv_kernel_dim=4,
    vocab_size=LLAMA_8B["vocab_size"],
    rms_norm_eps=1e-6,
    rope_parameters=dict(rope_type="default", rope_theta=1e7, partial_rotary_factor=0.25),
    max_position_embeddings=131_072,
    tie_word_embeddings=False,
)
_TINY = dict(
    hidden_size=128,
    intermediate_size=128,
    num_hidden_layers=8,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=64,
    linear_num_key_heads=2,
    linear_num_value_heads=4,
    linear_key_head_dim=32,
    linear_value_head_dim=32,
)

QWEN3_5_9B = Shapes(_9B, LLAMA_8B, LLAMA_1B)
TINY_LINEAR = Shapes(_9B | _TINY, TINY, LLAMA_1B)
