"""Owns the Qwen2 family (arXiv 2407.10671), which includes Qwen2.5 and MiMo-7B: a Llama with biases
for queries, keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specguide.models.config import ModelConfig
from specguide.models.dense import build_layer
from specguide.models.family import Family
from specguide.models.windows import flagged_windows


def read(fields: Mapping[str, Any]) -> ModelConfig:
    """Read config.json: windows in some layers if `use_sliding_window` says so."""
    return ModelConfig.from_fields(
        fields,
        max_position_embeddings=32_768,
        qkv_bias=True,
        sliding_windows=flagged_windows(fields),
    )


QWEN2 = Family(("Qwen2ForCausalLM", "MiMoForCausalLM"), read, build_layer)
