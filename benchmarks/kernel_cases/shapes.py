"""Shapes at which kernels are timed: those of Llama-3.1-8B."""

from __future__ import annotations

from benchmarks.models.llama_8b import LLAMA_8B

HIDDEN, INTERMEDIATE = LLAMA_8B["hidden_size"], LLAMA_8B["intermediate_size"]
NUM_HEADS, NUM_KV_HEADS = LLAMA_8B["num_attention_heads"], LLAMA_8B["num_key_value_heads"]
HEAD_DIM, NUM_LAYERS = LLAMA_8B["head_dim"], LLAMA_8B["num_hidden_layers"]
VOCAB_SIZE = LLAMA_8B["vocab_size"]
QKV = (NUM_HEADS + 2 * NUM_KV_HEADS) * HEAD_DIM
PRODUCT_SHAPES: dict[str, tuple[int, int]] = {
    "qkv": (QKV, HIDDEN),
    "o": (HIDDEN, HIDDEN),
    "gate_up": (2 * INTERMEDIATE, HIDDEN),
    "down": (HIDDEN, INTERMEDIATE),
}
"""Output and input features of the products of a layer."""
