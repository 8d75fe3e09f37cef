"""Owns the families with the latent attention of DeepSeek: DeepSeek-V2 (arXiv 2405.04434),
DeepSeek-V3 (arXiv 2412.19437), whose architecture Kimi-K2 and Moonlight have, too, and
GLM-4.7-Flash."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import flag, mapping, positive_int, positive_number, shown
from specguide.layers.latent_attention import LatentShape
from specguide.layers.rope import RopeConfig
from specguide.layers.rope_parameters import yarn_mscale
from specguide.models.config import LARGEST, size
from specguide.models.config_fields import check_neutral
from specguide.models.family import Family
from specguide.models.shared_experts import (
    SHARED_EXPERTS_FIELDS,
    ExpertDefaults,
    SharedExpertsConfig,
    build_layer,
    shared_experts_fields,
)
from specguide.models.windows import no_windows

_FIELDS = (
    *SHARED_EXPERTS_FIELDS,
    *("kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"),
    *("qk_head_dim", "rope_interleave", "mlp_layer_types", "num_local_experts", "num_mtp_layers"),
)
_LARGEST_RANK = 2**12
_IN_GROUPS = "group_limited_greedy"


@dataclass(frozen=True)
class _Defaults:
    """What a family's configuration says where config.json does not, as transformers has it.

    query_rank, plain_dim, value_dim: see LatentShape
    max_positions: longest context
    eps:           of the norms
    """

    experts: ExpertDefaults
    query_rank: int
    plain_dim: int = 128
    value_dim: int = 128
    max_positions: int = 4096
    eps: float = 1e-6


def read(
    fields: Mapping[str, Any], *, defaults: _Defaults, is_sigmoid: bool = True
) -> SharedExpertsConfig:
    """Read config.json. is_sigmoid: how experts are scored, see RoutingRule; without sigmoids
    `topk_method` tells whether the experts are in groups, and weights are not normalised"""
    check_neutral(fields, {"attention_bias": (None, False), "mlp_bias": (None, False)})
    if not is_sigmoid:
        check_neutral(fields, {"norm_topk_prob": (None, False)})
        if fields.get("topk_method") != _IN_GROUPS:
            fields = {**fields, "n_group": 1, "topk_group": 1}
    max_positions = size(fields, "max_position_embeddings", defaults.max_positions)
    rope = RopeConfig.from_hf(
        fields, max_positions, is_interleaved=flag(fields, "rope_interleave", True)
    )
    latent = _latent_shape(fields, defaults, rope)
    config = SharedExpertsConfig.from_fields(
        {**fields, "head_dim": latent.rope_dim},  # the stated one has no part in the attention
        max_position_embeddings=max_positions,
        eps=defaults.eps,
        rope=rope,
        num_kv_heads=1,
        sliding_windows=no_windows(fields),
        latent=latent,
        **shared_experts_fields(fields, defaults.experts, is_sigmoid=is_sigmoid),
    )
    key_dim = latent.rank + latent.rope_dim
    return replace(config, head_dim=key_dim, num_dense=_num_dense(fields, config))


def _latent_shape(fields: Mapping[str, Any], defaults: _Defaults, rope: RopeConfig) -> LatentShape:
    most = LARGEST["head_dim"]
    plain_dim = positive_int(fields, "qk_nope_head_dim", defaults.plain_dim, at_most=most)
    rope_dim = positive_int(fields, "qk_rope_head_dim", 64, at_most=most)
    if rope_dim % 2:
        raise CheckpointError(f"'qk_rope_head_dim' must be even, found {rope_dim}")
    query_rank = None
    if fields.get("q_lora_rank", defaults.query_rank) is not None:
        query_rank = positive_int(
            fields, "q_lora_rank", defaults.query_rank, at_most=LARGEST["hidden_size"]
        )
    return LatentShape(
        num_heads=size(fields, "num_attention_heads"),
        rope=rope,
        rank=positive_int(fields, "kv_lora_rank", 512, at_most=_LARGEST_RANK),
        query_rank=query_rank,
        plain_dim=plain_dim,
        rope_dim=rope_dim,
        value_dim=positive_int(fields, "v_head_dim", defaults.value_dim, at_most=most),
        scale=(plain_dim + rope_dim) ** -0.5 * _sharpness(fields, rope),
    )


def _sharpness(fields: Mapping[str, Any], rope: RopeConfig) -> float:
    """The factor that an extended context puts on the dot products, from YaRN's
    `mscale_all_dim`."""
    stated = mapping(fields, "rope_scaling") or mapping(fields, "rope_parameters")
    weight = stated.get("mscale_all_dim")
    if rope.rope_type == "default" or not weight:
        return 1.0
    return yarn_mscale(rope.factor, positive_number(stated, "mscale_all_dim")) ** 2


def _num_dense(fields: Mapping[str, Any], config: SharedExpertsConfig) -> int:
    """The number of plain layers, where `mlp_layer_types` states the kind of each. Raises
    CheckpointError."""
    stated = fields.get("mlp_layer_types")
    if stated is None:
        return config.num_dense
    num_layers = config.num_layers
    num_dense = stated.count("dense") if isinstance(stated, list) else 0
    if stated != ["dense"] * num_dense + ["sparse"] * (num_layers - num_dense):
        raise CheckpointError(
            f"'mlp_layer_types' must be 'dense', then 'sparse', for {num_layers} layers; found "
            f"{shown(stated)}"
        )
    return num_dense


def _family(
    architecture: str,
    defaults: _Defaults,
    scoring: str = "sigmoid",
    methods: tuple[str | None, ...] = (None, "noaux_tc"),
) -> Family[SharedExpertsConfig]:
    """A family. scoring, methods: the values of `scoring_func` and `topk_method` that it may
    state"""
    reader: Callable[[Mapping[str, Any]], SharedExpertsConfig] = partial(
        read, defaults=defaults, is_sigmoid=scoring == "sigmoid"
    )
    return Family(
        (architecture,),
        reader,
        build_layer,
        fields=_FIELDS,
        neutral={
            "scoring_func": (None, scoring),
            "topk_method": methods,
            "moe_layer_freq": (None, 1),
            "ep_size": (None, 1),
        },
    )


DEEPSEEK2 = _family(
    "DeepseekV2ForCausalLM",
    _Defaults(
        ExpertDefaults(64, 6, 1407, mlp_size=11_008, num_dense=0, is_normalised=False),
        query_rank=1536,
        max_positions=2048,
    ),
    scoring="softmax",
    methods=(None, "greedy", _IN_GROUPS),
)
DEEPSEEK3 = _family(
    "DeepseekV3ForCausalLM",
    _Defaults(
        ExpertDefaults(256, 8, 2048, mlp_size=18_432, num_dense=3, scale=2.5, groups=(8, 4)),
        query_rank=1536,
    ),
)
GLM4_MOE_LITE = _family(
    "Glm4MoeLiteForCausalLM",
    _Defaults(
        ExpertDefaults(64, 4, 1536, mlp_size=10_240, num_dense=1, scale=1.8),
        query_rank=768,
        plain_dim=192,
        value_dim=256,
        max_positions=202_752,
        eps=1e-5,
    ),
)
