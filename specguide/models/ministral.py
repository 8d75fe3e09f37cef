"""Owns the Ministral families: a Mistral whose windows may differ between layers (2024), and
Ministral 3 (2025), which scales queries with their position as Llama 4 does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import mapping, positive_int, positive_number
from specguide.layers.rope import RopeConfig
from specguide.models.config import ModelConfig, size
from specguide.models.dense import build_layer
from specguide.models.family import Family
from specguide.models.windows import optional_windows, read_layer_types, windows_of

_GROWTH = "llama_4_scaling_beta"


def read(fields: Mapping[str, Any]) -> ModelConfig:
    """Read config.json with the defaults of transformers' MinistralConfig."""
    stated = {"sliding_window": 4096, **fields}
    num_layers = size(stated, "num_hidden_layers")
    has_window = stated["sliding_window"] is not None
    kind = "sliding_attention" if has_window else "full_attention"
    kinds = read_layer_types(stated, num_layers) or [kind] * num_layers
    window = positive_int(stated, "sliding_window") if has_window else None
    return ModelConfig.from_fields(
        fields, max_position_embeddings=131_072, sliding_windows=windows_of(kinds, window)
    )


def read_ministral3(fields: Mapping[str, Any]) -> ModelConfig:
    """Read config.json with the defaults of transformers' Ministral3Config; the rope must be
    stated. Raises CheckpointError."""
    max_positions = size(fields, "max_position_embeddings", 262_144)
    rope = dict(mapping(fields, "rope_parameters") or mapping(fields, "rope_scaling"))
    rope.pop("max_position_embeddings", None)
    growth = rope.pop(_GROWTH, None)
    if growth is None:
        raise CheckpointError(f"rope parameter {_GROWTH!r} is missing")
    flat = {**fields, "rope_scaling": None, "rope_parameters": rope}
    return ModelConfig.from_fields(
        fields,
        head_dim=128,
        max_position_embeddings=max_positions,
        eps=1e-5,
        rope=replace(
            RopeConfig.from_hf(flat, max_positions),
            original_len=positive_int(rope, "original_max_position_embeddings"),
            query_growth=_growth(growth),
        ),
        sliding_windows=optional_windows(fields),
    )


def _growth(stated: Any) -> float:
    """RopeConfig.query_growth as stated; 0: queries are not scaled, as in Devstral 2."""
    is_zero = stated == 0 and not isinstance(stated, bool)
    return 0.0 if is_zero else positive_number({_GROWTH: stated}, _GROWTH)


MINISTRAL = Family(("MinistralForCausalLM",), read, build_layer)
MINISTRAL3 = Family(("Ministral3ForCausalLM",), read_ministral3, build_layer)
