"""Owns the GLM-4.5 family (Zhipu AI 2025, arXiv 2508.06471): experts beside an MLP through which
every token goes, and layers with a plain MLP before them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specguide.inputs.json_fields import flag
from specguide.layers.rope import RopeConfig
from specguide.models.config import size
from specguide.models.family import Family
from specguide.models.shared_experts import (
    SHARED_EXPERTS_FIELDS,
    ExpertDefaults,
    SharedExpertsConfig,
    build_layer,
    shared_experts_fields,
)
from specguide.models.windows import no_windows

_DEFAULTS = ExpertDefaults(128, 8, expert_size=1408, mlp_size=10_944, num_dense=1)


def read(fields: Mapping[str, Any]) -> SharedExpertsConfig:
    """Read config.json with the defaults of transformers' Glm4MoeConfig."""
    max_positions = size(fields, "max_position_embeddings", 131_072)
    return SharedExpertsConfig.from_fields(
        fields,
        max_position_embeddings=max_positions,
        eps=1e-5,
        rope=RopeConfig.from_hf(fields, max_positions, share=0.5),
        qkv_bias=flag(fields, "attention_bias"),
        qk_norm=flag(fields, "use_qk_norm"),
        sliding_windows=no_windows(fields),
        **shared_experts_fields(fields, _DEFAULTS),
    )


GLM4_MOE = Family(
    ("Glm4MoeForCausalLM",),
    read,
    build_layer,
    fields=(*SHARED_EXPERTS_FIELDS, "use_qk_norm"),
    neutral={"scoring_func": (None, "sigmoid"), "topk_method": (None, "noaux_tc")},
)
