"""Owns the OLMoE family (Muennighoff et al. 2024, arXiv 2409.02060): an MLP of experts, and norms
over all query heads and over all key heads together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from specguide.inputs.json_fields import flag, positive_number
from specguide.layers.attention import AttentionShape
from specguide.layers.decoder_layer import DecoderLayer
from specguide.layers.experts import Experts, ExpertsShape, SeparateExperts
from specguide.layers.norm import NormKind
from specguide.layers.placement import Placement
from specguide.models import dense
from specguide.models.config import ModelConfig, size
from specguide.models.expert_fields import EXPERT_FIELDS, experts_shape
from specguide.models.family import Family
from specguide.models.windows import no_windows

_FIELDS = (*EXPERT_FIELDS, "norm_topk_prob")


@dataclass(frozen=True, kw_only=True)
class OlmoeConfig(ModelConfig):
    """The configuration of an OLMoE. All layers have experts."""

    experts: ExpertsShape

    def attention(self, layer: int) -> AttentionShape:
        """The attention's shape in layer `layer`."""
        return replace(super().attention(layer), is_qk_norm_whole=True)


def read(fields: Mapping[str, Any]) -> OlmoeConfig:
    """Read config.json with the defaults of transformers' OlmoeConfig."""
    has_bias = flag(fields, "attention_bias")
    expert_size = size(fields, "intermediate_size", 2048)
    experts = experts_shape(
        fields,
        num_experts=64,
        num_chosen=8,
        expert_size=expert_size,
        is_normalised=flag(fields, "norm_topk_prob"),
    )
    return OlmoeConfig.from_fields(
        fields,
        max_position_embeddings=4096,
        intermediate_size=experts.rule.num_chosen * expert_size,
        norm=NormKind(positive_number(fields, "rms_norm_eps", 1e-5, at_most=1.0)),
        qkv_bias=has_bias,
        out_bias=has_bias,
        qk_norm=True,
        sliding_windows=no_windows(fields),
        experts=experts,
    )


def build_layer(config: OlmoeConfig, index: int, place: Placement) -> DecoderLayer:
    """Layer `index`: a dense layer whose MLP is a mixture of experts."""
    experts = Experts.create(
        place.within("mlp"), config.hidden_size, config.experts, SeparateExperts()
    )
    return dense.layer_around(experts, config, index, place)


OLMOE = Family(("OlmoeForCausalLM",), read, build_layer, fields=_FIELDS)
