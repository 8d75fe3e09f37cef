"""Owns the MiniMax-M2 family (MiniMax 2025): experts that are chosen by sigmoids, and norms over
all query heads and over all key heads together."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import positive_int, shown
from specguide.layers.experts import SeparateExperts
from specguide.layers.rope import RopeConfig
from specguide.models.config import size
from specguide.models.expert_fields import EXPERT_FIELDS, experts_shape
from specguide.models.experts_config import ExpertsConfig, layer_of_experts
from specguide.models.family import Family
from specguide.models.windows import no_windows

_LAYOUT = SeparateExperts(gate_up=("w1", "w3"), down=("w2",))
_FACTORS = (
    *(f"layernorm_{part}_beta" for part in ("full_attention", "linear_attention", "mlp")),
    "routed_scaling_factor",
)
_FIELDS = (*EXPERT_FIELDS, "rotary_dim", "attn_type_list")
_OF_ABSENT_PARTS = (
    "mlp_intermediate_size",
    "shared_moe_mode",
    "use_mtp",
    "num_mtp_modules",
    "mtp_transformer_layers",
)
"""Fields about layers without experts, a shared expert and an MTP head, none of which published
checkpoints have."""


def read(fields: Mapping[str, Any]) -> ExpertsConfig:
    """Read config.json with the defaults of transformers' MiniMaxM2Config. Raises CheckpointError
    for layers of linear attention."""
    kinds = fields.get("attn_type_list")
    if kinds is not None and (not isinstance(kinds, list) or any(kind != 1 for kind in kinds)):
        raise CheckpointError(
            "'attn_type_list' must be 1 for every layer, which is full attention; found "
            f"{shown(kinds)}"
        )
    max_positions = size(fields, "max_position_embeddings", 196_608)
    head_dim = size(fields, "head_dim", 128)
    num_rotated = positive_int(fields, "rotary_dim", head_dim, at_most=head_dim)
    expert_size = size(fields, "intermediate_size", 1536)
    experts = experts_shape(
        fields,
        num_experts=256,
        num_chosen=8,
        expert_size=expert_size,
        is_sigmoid=True,
        choice_bias="e_score_correction_bias",
    )
    return ExpertsConfig.from_fields(
        fields,
        head_dim=head_dim,
        max_position_embeddings=max_positions,
        intermediate_size=experts.rule.num_chosen * expert_size,
        rope=RopeConfig.from_hf(
            {"rope_theta": 5e6, **fields}, max_positions, share=num_rotated / head_dim
        ),
        qk_norm=True,
        is_qk_norm_whole=True,
        sliding_windows=no_windows(fields),
        experts=experts,
    )


MINIMAX_M2 = Family(
    ("MiniMaxM2ForCausalLM",),
    read,
    partial(layer_of_experts, name="block_sparse_moe", layout=_LAYOUT),
    fields=(*_FIELDS, *_OF_ABSENT_PARTS),
    neutral={
        **dict.fromkeys(("use_qk_norm", "use_routing_bias"), (None, True)),
        **dict.fromkeys(_FACTORS, (None, 1)),
        "qk_norm_type": (None, "per_layer"),
        "scoring_func": (None, "sigmoid"),
        "shared_intermediate_size": (None, 0),
    },
)
