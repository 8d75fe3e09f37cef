"""Owns the Gemma 2 family (Gemma Team 2024, arXiv 2408.00118): norms on both sides of attention and
MLP, a window in every other layer, and limits on attention scores and logits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from specguide.inputs.json_fields import flag, positive_number
from specguide.layers.attention import AttentionShape
from specguide.layers.decoder_layer import SandwichLayer
from specguide.layers.feed_forward import GatedMlp
from specguide.layers.placement import Placement
from specguide.models.config import ModelConfig, attention_biases, norm_kind, size
from specguide.models.dense import SandwichNorms, sandwich_layer
from specguide.models.family import Family
from specguide.models.windows import periodic_windows

GELU = dict.fromkeys(("hidden_activation", "hidden_act"), (None, "gelu_pytorch_tanh"))
"""Values of the fields of the activation, which is always this one."""

NORMS = SandwichNorms(
    "input_layernorm",
    "post_attention_layernorm",
    "pre_feedforward_layernorm",
    "post_feedforward_layernorm",
)
"""The norms of a layer, also of later generations."""

_FIELDS = (
    "query_pre_attn_scalar",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "sliding_window_size",
)


@dataclass(frozen=True, kw_only=True)
class Gemma2Config(ModelConfig):
    """The configuration of a Gemma 2.

    query_pre_attn_scalar: the attention's dot products are divided by its square root
    scores_limit:          limit of the attention's scores, see AttentionForm; None: no limit
    """

    query_pre_attn_scalar: float
    scores_limit: float | None

    def attention(self, layer: int) -> AttentionShape:
        """The attention's shape in layer `layer`."""
        return replace(
            super().attention(layer),
            scale=self.query_pre_attn_scalar**-0.5,
            softcap=self.scores_limit,
        )


def read(fields: Mapping[str, Any]) -> Gemma2Config:
    """Read config.json with the defaults of transformers' Gemma2Config."""
    return Gemma2Config.from_fields(
        fields,
        head_dim=256,
        max_position_embeddings=8192,
        norm=norm_kind(fields, weight_offset=1),
        tie_word_embeddings=flag(fields, "tie_word_embeddings", True),
        sliding_windows=periodic_windows(fields, 2),
        embedding_scale=size(fields, "hidden_size") ** 0.5,
        query_pre_attn_scalar=positive_number(fields, "query_pre_attn_scalar", 256),
        scores_limit=limit_of(fields, "attn_logit_softcapping", 50.0),
        logits_limit=limit_of(fields, "final_logit_softcapping", 30.0),
        **attention_biases(fields),
    )


def limit_of(fields: Mapping[str, Any], name: str, default: float | None) -> float | None:
    """The stated limit; None, if it is null: no limit. Raises CheckpointError."""
    if fields.get(name, default) is None:
        return None
    return positive_number(fields, name, default)


def build_layer(config: ModelConfig, index: int, place: Placement) -> SandwichLayer:
    """Layer `index` with uninitialised weights."""
    mlp = GatedMlp.create(
        place.within("mlp"), config.hidden_size, config.intermediate_size, activation="gelu_tanh"
    )
    return sandwich_layer(mlp, config, index, place, NORMS)


GEMMA2 = Family(
    ("Gemma2ForCausalLM",),
    read,
    build_layer,
    fields=_FIELDS,
    neutral=GELU,
)
