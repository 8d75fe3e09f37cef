"""Owns the layers that the dense families share; the families differ only in their ModelConfig."""

from __future__ import annotations

from typing import NamedTuple

from specguide.layers.attention import Attention
from specguide.layers.decoder_layer import DecoderLayer, SandwichLayer, SelfAttention
from specguide.layers.feed_forward import SEPARATE, FeedForward, GatedMlp, MlpNames
from specguide.layers.latent_attention import LatentAttention
from specguide.layers.linear_attention import LinearAttention
from specguide.layers.norm import NoNorm, RmsNorm
from specguide.layers.placement import Placement
from specguide.layers.quantization import InputFormat
from specguide.models.config import ModelConfig


def build_layer(
    config: ModelConfig, index: int, place: Placement, names: MlpNames = SEPARATE
) -> DecoderLayer:
    """A layer of norm, grouped-query attention, norm and gated MLP, with uninitialised weights."""
    mlp = GatedMlp.create(
        place.within("mlp"),
        config.hidden_size,
        config.intermediate_size,
        bias=config.mlp_bias,
        names=names,
    )
    return layer_around(mlp, config, index, place)


def layer_around(
    feed_forward: FeedForward, config: ModelConfig, index: int, place: Placement
) -> DecoderLayer:
    """The same layer with a different feed-forward layer."""
    attention = _attention(config, index, place)

    def norm(name: str, output: InputFormat | None) -> RmsNorm:
        return RmsNorm.create(place, name, config.hidden_size, config.norm, output)

    return DecoderLayer(
        input_norm=norm("input_layernorm", attention.input_format),
        attention=attention,
        post_attention_norm=norm("post_attention_layernorm", feed_forward.input_format),
        feed_forward=feed_forward,
    )


class SandwichNorms(NamedTuple):
    """The checkpoint's names for the norms of a SandwichLayer; None: there is no norm in that
    place."""

    input: str | None
    post_attention: str
    pre_mlp: str | None
    post_mlp: str


def sandwich_layer(
    mlp: GatedMlp, config: ModelConfig, index: int, place: Placement, names: SandwichNorms
) -> SandwichLayer:
    """A layer with norms behind attention and MLP, and also before them if `names` has such
    norms."""
    attention = _attention(config, index, place)

    def norm(name: str, output: InputFormat | None = None) -> RmsNorm:
        return RmsNorm.create(place, name, config.hidden_size, config.norm, output)

    return SandwichLayer(
        input_norm=norm(names.input, attention.input_format) if names.input else NoNorm(),
        attention=attention,
        post_attention_norm=norm(names.post_attention),
        pre_mlp_norm=norm(names.pre_mlp, mlp.input_format) if names.pre_mlp else NoNorm(),
        mlp=mlp,
        post_mlp_norm=norm(names.post_mlp),
    )


def _attention(config: ModelConfig, index: int, place: Placement) -> SelfAttention:
    """The attention of layer `index`."""
    size = config.hidden_size
    if config.linear is not None and index in config.linear_layers:
        return LinearAttention.create(place.within("linear_attn"), size, config.linear)
    place = place.within("self_attn")
    if config.latent is not None:
        return LatentAttention.create(place, size, size, config.latent)
    return Attention.create(place, size, size, config.attention(index))
