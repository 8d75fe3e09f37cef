"""Owns the Qwen3-MoE family (arXiv 2505.09388): a Qwen3 whose MLP is a mixture of experts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import flag, positive_int, shown
from specguide.layers.decoder_layer import DecoderLayer
from specguide.layers.experts import Experts, SeparateExperts
from specguide.layers.feed_forward import GatedMlp
from specguide.layers.placement import Placement
from specguide.models import dense
from specguide.models.config import attention_biases, size
from specguide.models.expert_fields import EXPERT_FIELDS, experts_shape
from specguide.models.experts_config import ExpertsConfig
from specguide.models.family import Family
from specguide.models.windows import no_windows, uniform_windows

_FIELDS = (
    *EXPERT_FIELDS,
    "moe_intermediate_size",
    "norm_topk_prob",
    "decoder_sparse_step",
    "mlp_only_layers",
)


@dataclass(frozen=True, kw_only=True)
class Qwen3MoeConfig(ExpertsConfig):
    """The configuration of a Qwen3-MoE. has_experts: whether each layer has experts; the other
    layers have an MLP of `mlp_size` inner features"""

    mlp_size: int
    has_experts: tuple[bool, ...]


def read(fields: Mapping[str, Any]) -> Qwen3MoeConfig:
    """Read config.json with the defaults of transformers' Qwen3MoeConfig."""
    experts = experts_shape(
        fields,
        num_experts=128,
        num_chosen=8,
        expert_size=size(fields, "moe_intermediate_size", 768),
        is_normalised=flag(fields, "norm_topk_prob"),
    )
    mlp_size = size(fields, "intermediate_size", 6144)
    has_windows = flag(fields, "use_sliding_window")
    return Qwen3MoeConfig.from_fields(
        fields,
        max_position_embeddings=32_768,
        intermediate_size=max(mlp_size, experts.rule.num_chosen * experts.expert_size),
        qk_norm=True,
        sliding_windows=(uniform_windows if has_windows else no_windows)(fields),
        experts=experts,
        mlp_size=mlp_size,
        has_experts=_has_experts(fields),
        **attention_biases(fields),
    )


def build_layer(config: Qwen3MoeConfig, index: int, place: Placement) -> DecoderLayer:
    """Layer `index`: a dense layer whose MLP is a mixture of experts if `has_experts` says so."""
    hidden_size = config.hidden_size
    inner = place.within("mlp")
    feed_forward = (
        Experts.create(inner, hidden_size, config.experts, SeparateExperts())
        if config.has_experts[index]
        else GatedMlp.create(inner, hidden_size, config.mlp_size)
    )
    return dense.layer_around(feed_forward, config, index, place)


def _has_experts(fields: Mapping[str, Any]) -> tuple[bool, ...]:
    num_layers = size(fields, "num_hidden_layers")
    period = positive_int(fields, "decoder_sparse_step", 1)
    without = fields.get("mlp_only_layers") or []
    if not isinstance(without, list) or not all(type(layer) is int for layer in without):
        raise CheckpointError(
            f"'mlp_only_layers' must be a list of integers, found {shown(without)}"
        )
    return tuple(layer not in without and (layer + 1) % period == 0 for layer in range(num_layers))


QWEN3_MOE = Family(
    ("Qwen3MoeForCausalLM",),
    read,
    build_layer,
    fields=_FIELDS,
    neutral={"use_qk_norm": (None, True)},
)
