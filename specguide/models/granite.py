"""Owns the dense Granite families, 3 and 4 (IBM 2024, 2025): a Llama with factors on embeddings,
dot products, residual stream and logits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import flag, positive_number, shown
from specguide.layers.attention import AttentionShape
from specguide.layers.decoder_layer import DecoderLayer
from specguide.layers.feed_forward import GatedMlp, MlpNames
from specguide.layers.placement import Placement
from specguide.layers.rope import RopeConfig
from specguide.models import dense
from specguide.models.config import ModelConfig, attention_biases, norm_kind, size
from specguide.models.family import Family
from specguide.models.windows import no_windows

_FACTORS = ("embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling")
_HYBRID_FIELDS = (
    *_FACTORS,
    *("num_local_experts", "num_experts_per_tok", "shared_intermediate_size"),
    *("position_embedding_type", "time_step_limit", "router_aux_loss_coef", "layers_block_type"),
    *(f"mamba_{name}" for name in ["n_heads", "n_groups", "d_state", "d_head", "d_conv", "expand"]),
    *(f"mamba_{name}" for name in ["chunk_size", "conv_bias", "proj_bias"]),
)
_SHARED_MLP = MlpNames(("input_linear",), "output_linear")


@dataclass(frozen=True, kw_only=True)
class GraniteConfig(ModelConfig):
    """The configuration of a Granite. attention_scale: factor on the dot products"""

    attention_scale: float

    def attention(self, layer: int) -> AttentionShape:
        """The attention's shape in layer `layer`."""
        return replace(super().attention(layer), scale=self.attention_scale)


def read(fields: Mapping[str, Any], **own: Any) -> GraniteConfig:
    """Read config.json with the defaults of transformers' GraniteConfig.

    The residual stream here is the model's ÷ residual_multiplier, so nothing that is added to it
    needs a factor. Norms do not change under a factor, except for their eps, and embeddings have a
    factor in any case.
    """
    embedding, attention, residual, logits = (
        positive_number(fields, name, 1.0) for name in _FACTORS
    )
    norm = norm_kind(fields)
    return GraniteConfig.from_fields(
        fields,
        norm=replace(norm, eps=norm.eps / residual**2),
        mlp_bias=flag(fields, "mlp_bias"),
        sliding_windows=no_windows({**fields, "layer_types": None}),
        embedding_scale=embedding / residual,
        stream_scale=residual,
        logits_scale=1.0 / logits,
        attention_scale=attention,
        **attention_biases(fields),
        **own,
    )


def read_hybrid(fields: Mapping[str, Any]) -> GraniteConfig:
    """Read the config.json of a GraniteMoeHybrid that has attention in every layer and no
    experts. Raises CheckpointError for others."""
    kinds = fields.get("layer_types") or fields.get("layers_block_type") or ["mamba"]
    others = [kind for kind in kinds if kind not in ("attention", "full_attention")]
    if others:
        raise CheckpointError(
            f"layers of kind {shown(others[0])} are not supported; only attention layers are"
        )
    if fields.get("num_local_experts", 8) != 0:
        raise CheckpointError(
            "'num_local_experts' must be 0: only dense models of this architecture are supported"
        )
    max_positions = size(fields, "max_position_embeddings", 2048)
    has_rope = fields.get("position_embedding_type") == "rope"
    rope = RopeConfig.from_hf(fields, max_positions)
    return read(
        fields,
        intermediate_size=size(
            {"intermediate_size": fields.get("shared_intermediate_size", 1024)}, "intermediate_size"
        ),
        rope=rope if has_rope else replace(rope, share=0.0),
    )


def build_hybrid_layer(config: GraniteConfig, index: int, place: Placement) -> DecoderLayer:
    """Layer `index` of a GraniteMoeHybrid, whose MLP is called `shared_mlp` in the checkpoint."""
    inner = place.within("shared_mlp")
    mlp = GatedMlp.create(inner, config.hidden_size, config.intermediate_size, names=_SHARED_MLP)
    return dense.layer_around(mlp, config, index, place)


GRANITE = Family(("GraniteForCausalLM",), read, dense.build_layer, fields=_FACTORS)
GRANITE_HYBRID = Family(
    ("GraniteMoeHybridForCausalLM",),
    read_hybrid,
    build_hybrid_layer,
    fields=_HYBRID_FIELDS,
    neutral={"normalization_function": (None, "rmsnorm")},
)
