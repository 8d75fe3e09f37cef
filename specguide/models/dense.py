"""Owns the layer that the dense families share; they differ in what their ModelConfig says."""

from __future__ import annotations

from specguide.layers.attention import Attention
from specguide.layers.decoder_layer import DecoderLayer
from specguide.layers.feed_forward import FeedForward, GatedMlp
from specguide.layers.norm import RmsNorm
from specguide.layers.placement import Placement
from specguide.layers.quantization import InputFormat
from specguide.models.config import ModelConfig


def build_layer(config: ModelConfig, index: int, place: Placement) -> DecoderLayer:
    """Norm, grouped-query attention, norm, gated MLP."""
    mlp = GatedMlp.create(
        place.within("mlp"), config.hidden_size, config.intermediate_size, bias=config.mlp_bias
    )
    return layer_around(mlp, config, index, place)


def layer_around(
    feed_forward: FeedForward, config: ModelConfig, index: int, place: Placement
) -> DecoderLayer:
    """The same with another feed-forward layer."""
    hidden_size = config.hidden_size
    attention = Attention.create(
        place.within("self_attn"), hidden_size, hidden_size, config.attention(index)
    )

    def norm(name: str, output: InputFormat | None) -> RmsNorm:
        return RmsNorm.create(place, name, hidden_size, config.norm, output)

    return DecoderLayer(
        input_norm=norm("input_layernorm", attention.qkv.input_format),
        attention=attention,
        post_attention_norm=norm("post_attention_layernorm", feed_forward.input_format),
        feed_forward=feed_forward,
    )
