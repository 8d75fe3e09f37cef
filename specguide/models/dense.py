"""Owns the layer that the dense families share; they differ in what their ModelConfig says."""

from __future__ import annotations

from specguide.layers.attention import Attention
from specguide.layers.decoder_layer import DecoderLayer
from specguide.layers.feed_forward import GatedMlp
from specguide.layers.norm import RmsNorm
from specguide.layers.placement import Placement
from specguide.models.config import ModelConfig


def build_layer(config: ModelConfig, index: int, place: Placement) -> DecoderLayer:
    """Norm, grouped-query attention, norm, gated MLP."""
    hidden_size = config.hidden_size
    return DecoderLayer(
        input_norm=RmsNorm.create(place, "input_layernorm", hidden_size, config.norm),
        attention=Attention.create(
            place.within("self_attn"), hidden_size, hidden_size, config.attention(index)
        ),
        post_attention_norm=RmsNorm.create(
            place, "post_attention_layernorm", hidden_size, config.norm
        ),
        feed_forward=GatedMlp.create(
            place.within("mlp"), hidden_size, config.intermediate_size, bias=config.mlp_bias
        ),
    )
