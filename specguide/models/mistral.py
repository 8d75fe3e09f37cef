"""Owns the Mistral family (Jiang et al. 2023, arXiv 2310.06825): a Llama with a sliding window in
every layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specguide.models.config import ModelConfig
from specguide.models.dense import build_layer
from specguide.models.family import Family
from specguide.models.windows import uniform_windows


def read(fields: Mapping[str, Any]) -> ModelConfig:
    """Read config.json: the default window is 4,096; null means no window."""
    return ModelConfig.from_fields(
        fields,
        max_position_embeddings=131_072,
        sliding_windows=uniform_windows(fields),
    )


MISTRAL = Family(("MistralForCausalLM",), read, build_layer)
