"""Owns the GLM-4.5 family (Zhipu AI 2025, arXiv 2508.06471): experts beside an MLP through which
every token goes, and layers with a plain MLP before them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import flag, positive_int, positive_number, shown
from specguide.layers.decoder_layer import DecoderLayer
from specguide.layers.experts import Experts, SeparateExperts, SharedExperts
from specguide.layers.feed_forward import GatedMlp
from specguide.layers.norm import NormKind
from specguide.layers.placement import Placement
from specguide.layers.rope import RopeConfig
from specguide.models import dense
from specguide.models.config import LARGEST, size
from specguide.models.expert_fields import experts_shape
from specguide.models.experts_config import ExpertsConfig
from specguide.models.family import Family
from specguide.models.windows import no_windows

_FIELDS = (
    *("n_routed_experts", "num_experts_per_tok", "n_shared_experts", "moe_intermediate_size"),
    *("first_k_dense_replace", "norm_topk_prob", "routed_scaling_factor", "use_qk_norm"),
)
_CHOICE_BIAS = "gate.e_score_correction_bias"


@dataclass(frozen=True, kw_only=True)
class Glm4MoeConfig(ExpertsConfig):
    """The configuration of a GLM-4.5.

    num_dense:   layers with an MLP of `mlp_size` inner features; those behind them have experts
    shared_size: inner features of the MLP beside the experts
    """

    num_dense: int
    mlp_size: int
    shared_size: int

    def of_one_more_layer(self) -> Self:
        """See ModelConfig."""
        return replace(super().of_one_more_layer(), num_dense=0)


def read(fields: Mapping[str, Any]) -> Glm4MoeConfig:
    """Read config.json with the defaults of transformers' Glm4MoeConfig."""
    max_positions = size(fields, "max_position_embeddings", 131_072)
    expert_size = positive_int(
        fields, "moe_intermediate_size", 1408, at_most=LARGEST["intermediate_size"]
    )
    experts = experts_shape(
        fields,
        name="n_routed_experts",
        num_experts=128,
        num_chosen=8,
        expert_size=expert_size,
        is_normalised=flag(fields, "norm_topk_prob", True),
        is_sigmoid=True,
        scale=positive_number(fields, "routed_scaling_factor", 1.0),
        choice_bias=_CHOICE_BIAS,
    )
    mlp_size = size(fields, "intermediate_size", 10_944)
    shared_size = expert_size * positive_int(fields, "n_shared_experts", 1, at_most=2**10)
    return Glm4MoeConfig.from_fields(
        fields,
        max_position_embeddings=max_positions,
        intermediate_size=max(mlp_size, experts.rule.num_chosen * expert_size + shared_size),
        norm=NormKind(positive_number(fields, "rms_norm_eps", 1e-5, at_most=1.0)),
        rope=RopeConfig.from_hf(fields, max_positions, share=0.5),
        qkv_bias=flag(fields, "attention_bias"),
        qk_norm=flag(fields, "use_qk_norm"),
        sliding_windows=no_windows(fields),
        experts=experts,
        num_dense=_num_dense(fields),
        mlp_size=mlp_size,
        shared_size=shared_size,
    )


def build_layer(config: Glm4MoeConfig, index: int, place: Placement) -> DecoderLayer:
    """Layer `index`: dense if it is one of the first, else with experts and a shared MLP."""
    hidden_size = config.hidden_size
    inner = place.within("mlp")
    if index < config.num_dense:
        mlp = GatedMlp.create(inner, hidden_size, config.mlp_size)
        return dense.layer_around(mlp, config, index, place)
    both = SharedExperts(
        Experts.create(inner, hidden_size, config.experts, SeparateExperts()),
        GatedMlp.create(inner.within("shared_experts"), hidden_size, config.shared_size),
    )
    return dense.layer_around(both, config, index, place)


def _num_dense(fields: Mapping[str, Any]) -> int:
    stated = fields.get("first_k_dense_replace", 1)
    if type(stated) is not int or stated < 0:
        raise CheckpointError(
            f"'first_k_dense_replace' must be an integer of at least 0, found {shown(stated)}"
        )
    return stated


GLM4_MOE = Family(
    ("Glm4MoeForCausalLM",),
    read,
    build_layer,
    fields=_FIELDS,
    neutral={
        **dict.fromkeys(("n_group", "topk_group"), (None, 1)),
        "scoring_func": (None, "sigmoid"),
        "topk_method": (None, "noaux_tc"),
    },
)
