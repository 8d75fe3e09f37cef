"""Owns the Qwen3 family (arXiv 2505.09388): a Llama whose query and key heads are normalised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specguide.models.config import ModelConfig, attention_biases
from specguide.models.dense import build_layer
from specguide.models.family import Family
from specguide.models.windows import flagged_windows


def read(fields: Mapping[str, Any]) -> ModelConfig:
    """Read config.json: biases of the attention if `attention_bias` says so, windows if
    `use_sliding_window` does."""
    return ModelConfig.from_fields(
        fields,
        head_dim=128,
        max_position_embeddings=32_768,
        qk_norm=True,
        **attention_biases(fields),
        sliding_windows=flagged_windows(fields),
    )


QWEN3 = Family(("Qwen3ForCausalLM",), read, build_layer)
