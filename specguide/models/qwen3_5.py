"""Owns the families in which most layers attend linearly: Qwen3.5, Qwen3.5-MoE and Qwen3-Next.
Every few layers there is one with grouped-query attention, whose output has a gate."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import flag, positive_int, positive_number
from specguide.layers.decoder_layer import DecoderLayer
from specguide.layers.experts import Experts, SeparateExperts, SharedExperts
from specguide.layers.feed_forward import GatedMlp
from specguide.layers.linear_attention import DeltaShape
from specguide.layers.norm import NormKind
from specguide.layers.placement import Placement
from specguide.layers.projection import Projection
from specguide.layers.rope import RopeConfig
from specguide.models import dense
from specguide.models.config import LARGEST, ModelConfig, size
from specguide.models.expert_fields import EXPERT_FIELDS, experts_shape
from specguide.models.experts_config import ExpertsConfig
from specguide.models.family import Family
from specguide.models.windows import read_layer_types

_LINEAR, _FULL = "linear_attention", "full_attention"
_HEADS = ("linear_num_key_heads", "linear_num_value_heads")
_DIMS = ("linear_key_head_dim", "linear_value_head_dim")
_FIELDS = (
    *(*_HEADS, *_DIMS, "linear_conv_kernel_dim", "full_attention_interval"),
    "mtp_num_hidden_layers",
)
_NEUTRAL = {
    "attn_output_gate": (None, True),
    "output_gate_type": (None, "swish", "silu"),
    "mamba_ssm_dtype": (None, "float32"),
    "mtp_use_dedicated_embeddings": (None, False),
}
_EXPERTS_FIELDS = (*EXPERT_FIELDS, "moe_intermediate_size", "shared_expert_intermediate_size")
_LONGEST_CONVOLUTION = 16


@dataclass(frozen=True, kw_only=True)
class LinearExpertsConfig(ExpertsConfig):
    """The configuration of such a model with experts. shared_size: inner features of the MLP beside
    the experts"""

    shared_size: int


def read(fields: Mapping[str, Any]) -> ModelConfig:
    """Read config.json with the defaults of transformers' Qwen3_5TextConfig."""
    return ModelConfig.from_fields(fields, **_own_fields(fields))


def read_experts(
    fields: Mapping[str, Any], *, num_experts: int, num_chosen: int, is_by_key_head: bool
) -> LinearExpertsConfig:
    """Read config.json of a model with experts. Raises CheckpointError.

    num_experts, num_chosen: defaults if config.json states none
    is_by_key_head: see DeltaShape
    """
    most = LARGEST["intermediate_size"]
    experts = experts_shape(
        fields,
        num_experts=num_experts,
        num_chosen=num_chosen,
        expert_size=positive_int(fields, "moe_intermediate_size", 512, at_most=most),
        is_normalised=flag(fields, "norm_topk_prob", True),
    )
    shared_size = positive_int(fields, "shared_expert_intermediate_size", 512, at_most=most)
    return LinearExpertsConfig.from_fields(
        fields,
        intermediate_size=experts.rule.num_chosen * experts.expert_size + shared_size,
        experts=experts,
        shared_size=shared_size,
        **_own_fields(fields, is_by_key_head=is_by_key_head),
    )


def _own_fields(fields: Mapping[str, Any], *, is_by_key_head: bool = False) -> dict[str, Any]:
    """What all these families add to `ModelConfig.from_fields`."""
    max_positions = size(fields, "max_position_embeddings", 32_768)
    has_bias = flag(fields, "attention_bias")
    norm = NormKind(positive_number(fields, "rms_norm_eps", 1e-6, at_most=1.0), weight_offset=1)
    return {
        "head_dim": 256,
        "max_position_embeddings": max_positions,
        "norm": norm,
        "rope": RopeConfig.from_hf(fields, max_positions, share=0.25),
        "qkv_bias": has_bias,
        "out_bias": has_bias,
        "qk_norm": True,
        "has_attention_gate": True,
        "sliding_windows": (None,) * size(fields, "num_hidden_layers"),
        "linear": _linear(fields, norm, is_by_key_head),
        "linear_layers": _linear_layers(fields),
    }


def _linear(fields: Mapping[str, Any], norm: NormKind, is_by_key_head: bool) -> DeltaShape:
    num_key_heads, num_value_heads = (
        positive_int(fields, name, default, at_most=LARGEST["num_attention_heads"])
        for name, default in zip(_HEADS, (16, 32), strict=True)
    )
    if num_value_heads % num_key_heads:
        raise CheckpointError(
            f"'{_HEADS[1]}' must be a multiple of '{_HEADS[0]}', found {num_value_heads} and "
            f"{num_key_heads}"
        )
    key_dim, value_dim = (
        positive_int(fields, name, 128, at_most=LARGEST["head_dim"]) for name in _DIMS
    )
    conv_len = positive_int(fields, "linear_conv_kernel_dim", 4, at_most=_LONGEST_CONVOLUTION)
    if conv_len < 2:
        raise CheckpointError(f"'linear_conv_kernel_dim' must be at least 2, found {conv_len}")
    return DeltaShape(
        num_key_heads, num_value_heads, key_dim, value_dim, conv_len, norm, is_by_key_head
    )


def _linear_layers(fields: Mapping[str, Any]) -> frozenset[int]:
    """The layers that attend linearly. Raises CheckpointError."""
    num_layers = size(fields, "num_hidden_layers")
    period = positive_int(fields, "full_attention_interval", 4)
    default = [_FULL if (layer + 1) % period == 0 else _LINEAR for layer in range(num_layers)]
    kinds = read_layer_types(fields, num_layers, (_FULL, _LINEAR)) or default
    return frozenset(layer for layer, kind in enumerate(kinds) if kind == _LINEAR)


def build_layer(config: LinearExpertsConfig, index: int, place: Placement) -> DecoderLayer:
    """Layer `index`, with experts and an MLP beside them, which has a gate of its own."""
    inner, hidden_size = place.within("mlp"), config.hidden_size
    both = SharedExperts(
        Experts.create(inner, hidden_size, config.experts, SeparateExperts()),
        GatedMlp.create(inner.within("shared_expert"), hidden_size, config.shared_size),
        Projection.create(inner, hidden_size, {"shared_expert_gate": 1}),
    )
    return dense.layer_around(both, config, index, place)


def _with_experts(
    architecture: str,
    num_experts: int,
    num_chosen: int,
    own_fields: tuple[str, ...] = (),
    own_neutral: Mapping[str, tuple[Any, ...]] = MappingProxyType({}),
    *,
    is_by_key_head: bool = False,
) -> Family[LinearExpertsConfig]:
    reader: Callable[[Mapping[str, Any]], LinearExpertsConfig] = partial(
        read_experts,
        num_experts=num_experts,
        num_chosen=num_chosen,
        is_by_key_head=is_by_key_head,
    )
    fields = (*_FIELDS, *_EXPERTS_FIELDS, *own_fields)
    return Family(
        (architecture,),
        reader,
        build_layer,
        fields=fields,
        neutral={
            **_NEUTRAL,
            **own_neutral,
            "mlp_only_layers": (None, []),
            "decoder_sparse_step": (None, 1),
        },
    )


QWEN3_5 = Family(("Qwen3_5ForCausalLM",), read, dense.build_layer, fields=_FIELDS, neutral=_NEUTRAL)
QWEN3_5_MOE = _with_experts(
    "Qwen3_5MoeForCausalLM", 256, 8, own_neutral={"norm_topk_prob": (None, True)}
)
QWEN3_NEXT = _with_experts(
    "Qwen3NextForCausalLM", 512, 10, ("norm_topk_prob",), is_by_key_head=True
)
