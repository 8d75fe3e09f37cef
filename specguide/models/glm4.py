"""Owns the GLM-4 families (Team GLM 2024, arXiv 2406.12793): half of each head is rotated, each
dimension with its neighbour. The models of April 2025 (GLM-4-0414) also norm the outputs of
attention and MLP."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from specguide.inputs.json_fields import flag
from specguide.layers.decoder_layer import SandwichLayer
from specguide.layers.feed_forward import FUSED, GatedMlp
from specguide.layers.placement import Placement
from specguide.layers.rope import RopeConfig
from specguide.models import dense
from specguide.models.config import ModelConfig, size
from specguide.models.family import Family
from specguide.models.windows import no_windows

_NORMS = dense.SandwichNorms(
    "input_layernorm",
    "post_self_attn_layernorm",
    "post_attention_layernorm",
    "post_mlp_layernorm",
)


def read(fields: Mapping[str, Any]) -> ModelConfig:
    """Read config.json with the defaults of transformers' Glm4Config."""
    max_positions = size(fields, "max_position_embeddings", 131_072)
    return ModelConfig.from_fields(
        fields,
        head_dim=128,
        max_position_embeddings=max_positions,
        eps=1.5625e-07,
        rope=RopeConfig.from_hf(fields, max_positions, share=0.5, is_interleaved=True),
        qkv_bias=flag(fields, "attention_bias", True),
        sliding_windows=no_windows(fields),
    )


def build_layer(config: ModelConfig, index: int, place: Placement) -> SandwichLayer:
    """Layer `index` of GLM-4-0414 with uninitialised weights."""
    mlp = GatedMlp.create(
        place.within("mlp"), config.hidden_size, config.intermediate_size, names=FUSED
    )
    return dense.sandwich_layer(mlp, config, index, place, _NORMS)


GLM4 = Family(("Glm4ForCausalLM",), read, build_layer)
GLM = Family(("GlmForCausalLM",), read, partial(dense.build_layer, names=FUSED))
"""A GLM-4 older than 0414."""
