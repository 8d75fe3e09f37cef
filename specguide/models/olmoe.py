"""Owns the OLMoE family (Muennighoff et al. 2024, arXiv 2409.02060): an MLP of experts, and norms
over all query heads and over all key heads together."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from specguide.inputs.json_fields import flag
from specguide.layers.experts import SeparateExperts
from specguide.models.config import attention_biases, size
from specguide.models.expert_fields import EXPERT_FIELDS, experts_shape
from specguide.models.experts_config import ExpertsConfig, layer_of_experts
from specguide.models.family import Family
from specguide.models.windows import no_windows

_FIELDS = (*EXPERT_FIELDS, "norm_topk_prob")


def read(fields: Mapping[str, Any]) -> ExpertsConfig:
    """Read config.json with the defaults of transformers' OlmoeConfig."""
    expert_size = size(fields, "intermediate_size", 2048)
    experts = experts_shape(
        fields,
        num_experts=64,
        num_chosen=8,
        expert_size=expert_size,
        is_normalised=flag(fields, "norm_topk_prob"),
    )
    return ExpertsConfig.from_fields(
        fields,
        max_position_embeddings=4096,
        intermediate_size=experts.rule.num_chosen * expert_size,
        eps=1e-5,
        qk_norm=True,
        is_qk_norm_whole=True,
        sliding_windows=no_windows(fields),
        experts=experts,
        **attention_biases(fields),
    )


OLMOE = Family(
    ("OlmoeForCausalLM",),
    read,
    partial(layer_of_experts, name="mlp", layout=SeparateExperts()),
    fields=_FIELDS,
)
