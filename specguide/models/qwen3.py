"""Owns the Qwen3 family (arXiv 2505.09388): a Llama whose query and key heads are normalised."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specguide.inputs.json_fields import flag
from specguide.models.config import ModelConfig
from specguide.models.dense import build_layer
from specguide.models.family import Family
from specguide.models.windows import flagged_windows


def read(fields: Mapping[str, Any]) -> ModelConfig:
    """Read config.json: biases of the attention if `attention_bias` says so, windows if
    `use_sliding_window` does."""
    has_bias = flag(fields, "attention_bias")
    return ModelConfig.from_fields(
        fields,
        head_dim=128,
        max_position_embeddings=32_768,
        qkv_bias=has_bias,
        out_bias=has_bias,
        qk_norm=True,
        sliding_windows=flagged_windows(fields, default=4096),
    )


QWEN3 = Family(("Qwen3ForCausalLM",), read, build_layer)
