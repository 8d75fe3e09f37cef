"""Owns the Mixtral family (Jiang et al. 2024, arXiv 2401.04088): a Mistral whose MLP is a mixture
of experts."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from specguide.layers.experts import SeparateExperts
from specguide.models.config import size
from specguide.models.expert_fields import EXPERT_FIELDS, experts_shape
from specguide.models.experts_config import ExpertsConfig, layer_of_experts
from specguide.models.family import Family
from specguide.models.windows import optional_windows

_LAYOUT = SeparateExperts(gate_up=("w1", "w3"), down=("w2",))


def read(fields: Mapping[str, Any]) -> ExpertsConfig:
    """Read config.json with the defaults of transformers' MixtralConfig."""
    expert_size = size(fields, "intermediate_size", 14_336)
    experts = experts_shape(fields, num_experts=8, num_chosen=2, expert_size=expert_size)
    return ExpertsConfig.from_fields(
        {"rope_theta": 1e6, **fields},
        max_position_embeddings=131_072,
        eps=1e-5,
        intermediate_size=experts.rule.num_chosen * expert_size,
        sliding_windows=optional_windows(fields),
        experts=experts,
    )


MIXTRAL = Family(
    ("MixtralForCausalLM",),
    read,
    partial(layer_of_experts, name="block_sparse_moe", layout=_LAYOUT),
    fields=EXPERT_FIELDS,
)
