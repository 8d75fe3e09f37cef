"""Owns the Gemma 3 family, text alone (Gemma Team 2025, arXiv 2503.19786): norms on both sides of
attention and MLP, and five layers with a window to one that sees all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from specguide.errors import CheckpointError
from specguide.json_fields import flag, mapping, positive_int, positive_number, shown
from specguide.layers.attention import Attention, AttentionShape, AttentionState
from specguide.layers.destination import Destination, merged
from specguide.layers.feed_forward import GatedMlp
from specguide.layers.norm import NormKind, RmsNorm
from specguide.layers.placement import Placement
from specguide.layers.projection import PartialSums
from specguide.layers.quantization import InputFormat, ProjectionInput
from specguide.layers.rope import RopeConfig
from specguide.models.config import ModelConfig, size
from specguide.models.family import Family
from specguide.models.windows import Windows, read_layer_types, windows_of

_GELU = (None, "gelu_pytorch_tanh")
_FIELDS = (
    "query_pre_attn_scalar",
    "rope_local_base_freq",
    "sliding_window_pattern",
    "_sliding_window_pattern",
)
_THETA = {"full_attention": 1e6, "sliding_attention": 1e4}


@dataclass(frozen=True, kw_only=True)
class Gemma3Config(ModelConfig):
    """rope is that of the layers that see all.

    local_rope:            of the layers with a window
    query_pre_attn_scalar: the dot products of the attention are divided by its square root
    """

    local_rope: RopeConfig
    query_pre_attn_scalar: float

    def attention(self, layer: int) -> AttentionShape:
        """Of layer `layer`."""
        shape = super().attention(layer)
        rope = self.rope if shape.sliding_window is None else self.local_rope
        return replace(shape, rope=rope, scale=self.query_pre_attn_scalar**-0.5)


def read(fields: Mapping[str, Any]) -> Gemma3Config:
    """With the defaults of transformers' Gemma3TextConfig."""
    has_bias = flag(fields, "attention_bias")
    max_positions = size(fields, "max_position_embeddings", 131_072)
    return Gemma3Config.from_fields(
        fields,
        head_dim=256,
        max_position_embeddings=max_positions,
        norm=NormKind(positive_number(fields, "rms_norm_eps", 1e-6, at_most=1.0), weight_offset=1),
        rope=_rope(fields, "full_attention", max_positions),
        local_rope=_rope(fields, "sliding_attention", max_positions),
        qkv_bias=has_bias,
        out_bias=has_bias,
        qk_norm=True,
        tie_word_embeddings=flag(fields, "tie_word_embeddings", True),
        sliding_windows=_windows(fields),
        embedding_scale=size(fields, "hidden_size") ** 0.5,
        query_pre_attn_scalar=positive_number(fields, "query_pre_attn_scalar", 256),
    )


@dataclass(frozen=True, eq=False)
class Gemma3Layer:
    """hidden + norm(attention(norm(hidden))), then + norm(mlp(norm(·)))."""

    input_norm: RmsNorm
    attention: Attention
    post_attention_norm: RmsNorm
    pre_mlp_norm: RmsNorm
    mlp: GatedMlp
    post_mlp_norm: RmsNorm

    def __call__(
        self,
        hidden: Tensor,
        normed: ProjectionInput,
        next_norm: RmsNorm,
        state: AttentionState,
    ) -> tuple[Tensor, ProjectionInput]:
        """See Layer."""
        attended = self.attention(normed, state).total(hidden.dtype)
        attended = self.post_attention_norm(attended)
        hidden, normed = self.pre_mlp_norm.add(hidden, PartialSums.of(attended))
        inner = self.post_mlp_norm(self.mlp(normed).total(hidden.dtype))
        return next_norm.add(hidden, PartialSums.of(inner))

    def destinations(self) -> dict[str, Destination]:
        """Where each tensor of a checkpoint goes, by its full name."""
        norms = self.input_norm, self.post_attention_norm, self.pre_mlp_norm, self.post_mlp_norm
        return merged(*norms, self.attention, self.mlp)


def build_layer(config: Gemma3Config, index: int, place: Placement) -> Gemma3Layer:
    """Uninitialised weights of layer `index`."""
    hidden_size = config.hidden_size

    def norm(name: str, output: InputFormat | None = None) -> RmsNorm:
        return RmsNorm.create(place, name, hidden_size, config.norm, output)

    attention = Attention.create(
        place.within("self_attn"), hidden_size, hidden_size, config.attention(index)
    )
    mlp = GatedMlp.create(
        place.within("mlp"), hidden_size, config.intermediate_size, activation="gelu_tanh"
    )
    return Gemma3Layer(
        input_norm=norm("input_layernorm", attention.qkv.input_format),
        attention=attention,
        post_attention_norm=norm("post_attention_layernorm"),
        pre_mlp_norm=norm("pre_feedforward_layernorm", mlp.input_format),
        mlp=mlp,
        post_mlp_norm=norm("post_feedforward_layernorm"),
    )


def _windows(fields: Mapping[str, Any]) -> Windows:
    num_layers = size(fields, "num_hidden_layers")
    period = positive_int(fields, "sliding_window_pattern", 6)
    kinds = read_layer_types(fields, num_layers) or [
        "sliding_attention" if (layer + 1) % period else "full_attention"
        for layer in range(num_layers)
    ]
    return windows_of(kinds, positive_int(fields, "sliding_window", 4096))


def _rope(fields: Mapping[str, Any], kind: str, max_positions: int) -> RopeConfig:
    """Of the layers of one kind: in `rope_parameters` by kind (transformers 5), or flat (before),
    where `rope_scaling` is of the layers that see all."""
    by_kind = mapping(fields, "rope_parameters")
    if not by_kind.keys() <= _THETA.keys():
        raise CheckpointError(
            f"'rope_parameters' must be stated for {' and '.join(_THETA)}, found "
            f"{shown(dict(by_kind))}"
        )
    is_full = kind == "full_attention"
    theta = fields.get("rope_theta" if is_full else "rope_local_base_freq")
    stated = {
        "rope_theta": _THETA[kind] if theta is None else theta,
        **mapping(by_kind, kind),
        **(mapping(fields, "rope_scaling") if is_full else {}),
    }
    flat = {**fields, "rope_parameters": stated, "rope_scaling": None}
    return RopeConfig.from_hf(flat, max_positions)


GEMMA3 = Family(
    ("Gemma3ForCausalLM",),
    read,
    build_layer,
    fields=_FIELDS,
    neutral={"hidden_activation": _GELU, "hidden_act": _GELU},
)
