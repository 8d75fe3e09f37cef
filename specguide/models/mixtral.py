"""Owns the Mixtral family (Jiang et al. 2024, arXiv 2401.04088): a Mistral whose MLP is a mixture
of experts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specguide.layers.decoder_layer import DecoderLayer
from specguide.layers.experts import Experts, ExpertsShape, SeparateExperts
from specguide.layers.placement import Placement
from specguide.models import dense
from specguide.models.config import ModelConfig, size
from specguide.models.expert_fields import EXPERT_FIELDS, experts_shape
from specguide.models.family import Family
from specguide.models.windows import optional_windows

_LAYOUT = SeparateExperts(gate_up=("w1", "w3"), down=("w2",))


@dataclass(frozen=True, kw_only=True)
class MixtralConfig(ModelConfig):
    """The configuration of a Mixtral. All layers have experts."""

    experts: ExpertsShape


def read(fields: Mapping[str, Any]) -> MixtralConfig:
    """Read config.json with the defaults of transformers' MixtralConfig."""
    expert_size = size(fields, "intermediate_size", 14_336)
    experts = experts_shape(fields, num_experts=8, num_chosen=2, expert_size=expert_size)
    return MixtralConfig.from_fields(
        {"rope_theta": 1e6, **fields},
        max_position_embeddings=131_072,
        intermediate_size=experts.rule.num_chosen * expert_size,
        sliding_windows=optional_windows(fields),
        experts=experts,
    )


def build_layer(config: MixtralConfig, index: int, place: Placement) -> DecoderLayer:
    """Layer `index`: a dense layer whose MLP is a mixture of experts."""
    inner = place.within("block_sparse_moe")
    experts = Experts.create(inner, config.hidden_size, config.experts, _LAYOUT)
    return dense.layer_around(experts, config, index, place)


MIXTRAL = Family(("MixtralForCausalLM",), read, build_layer, fields=EXPERT_FIELDS)
