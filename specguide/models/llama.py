"""Owns the Llama family (Touvron et al. 2023; Llama 3, arXiv 2407.21783)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specguide.inputs.json_fields import flag
from specguide.models.config import ModelConfig, attention_biases
from specguide.models.dense import build_layer
from specguide.models.family import Family
from specguide.models.windows import no_windows


def read(fields: Mapping[str, Any]) -> ModelConfig:
    """Read config.json: biases if `attention_bias` and `mlp_bias` say so; no windows."""
    return ModelConfig.from_fields(
        fields,
        mlp_bias=flag(fields, "mlp_bias"),
        sliding_windows=no_windows(fields),
        **attention_biases(fields),
    )


LLAMA = Family(("LlamaForCausalLM",), read, build_layer)
