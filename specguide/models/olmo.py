"""Owns the families OLMo 2 (arXiv 2501.00656) and OLMo 3 (Olmo Team 2025): norms only behind
attention and MLP, and norms over all query heads and over all key heads together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specguide.inputs.json_fields import mapping
from specguide.layers.decoder_layer import SandwichLayer
from specguide.layers.feed_forward import GatedMlp
from specguide.layers.placement import Placement
from specguide.layers.rope import RopeConfig
from specguide.models.config import attention_biases, size
from specguide.models.dense import SandwichNorms, sandwich_layer
from specguide.models.family import Family
from specguide.models.two_ropes import KindOfLayers, TwoRopesConfig, read_ropes
from specguide.models.windows import Windows, no_windows, periodic_windows

_NORMS = SandwichNorms(None, "post_attention_layernorm", None, "post_feedforward_layernorm")
_FULL = KindOfLayers("full_attention", 500_000.0, is_scaled=True)
_LOCAL = KindOfLayers("sliding_attention", 500_000.0)


def read_olmo2(fields: Mapping[str, Any]) -> TwoRopesConfig:
    """Read config.json with the defaults of transformers' Olmo2Config."""
    rope = RopeConfig.from_hf(fields, size(fields, "max_position_embeddings", 2048))
    return _read(fields, no_windows(fields), {"rope": rope, "local_rope": rope})


def read_olmo3(fields: Mapping[str, Any]) -> TwoRopesConfig:
    """Read config.json with the defaults of transformers' Olmo3Config."""
    ropes = read_ropes(_by_kind(fields), _FULL, _LOCAL, 2048)
    return _read(fields, periodic_windows(fields, 4), ropes)


def _by_kind(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields with a single rope, as transformers 5.10 writes it, rewritten as a rope for all
    layers whose scaling is only for layers without a window."""
    rope = mapping(fields, "rope_parameters")
    if not rope or any(isinstance(value, Mapping) for value in rope.values()):
        return fields
    theta = rope.get("rope_theta", fields.get("rope_theta"))
    return {**fields, "rope_theta": theta, "rope_scaling": rope, "rope_parameters": None}


def _read(fields: Mapping[str, Any], windows: Windows, ropes: Mapping[str, Any]) -> TwoRopesConfig:
    return TwoRopesConfig.from_fields(
        fields,
        eps=1e-5,
        qk_norm=True,
        is_qk_norm_whole=True,
        sliding_windows=windows,
        **attention_biases(fields),
        **ropes,
    )


def build_layer(config: TwoRopesConfig, index: int, place: Placement) -> SandwichLayer:
    """Layer `index` with uninitialised weights."""
    mlp = GatedMlp.create(place.within("mlp"), config.hidden_size, config.intermediate_size)
    return sandwich_layer(mlp, config, index, place, _NORMS)


OLMO2 = Family(("Olmo2ForCausalLM",), read_olmo2, build_layer)
OLMO3 = Family(("Olmo3ForCausalLM",), read_olmo3, build_layer)
