"""Owns ModelConfig: what a Hugging Face folder's config.json says about a decoder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import flag, positive_int, positive_number, token_ids
from specguide.layers.attention import AttentionShape
from specguide.layers.latent_attention import LatentShape
from specguide.layers.linear_attention import DeltaShape
from specguide.layers.norm import NormKind
from specguide.layers.quantization import (
    UNQUANTIZED,
    CacheScheme,
    Quantization,
    read_cache_scheme,
    read_quantization,
)
from specguide.layers.rope import RopeConfig

# More than any model has. Smaller values are checked against the shapes in the files before memory
# is allocated.
LARGEST = {
    "vocab_size": 2**26,
    "hidden_size": 2**22,
    "intermediate_size": 2**22,
    "moe_intermediate_size": 2**22,
    "num_hidden_layers": 2**10,
    "num_attention_heads": 2**14,
    "num_key_value_heads": 2**14,
    "head_dim": 2**14,
    "max_position_embeddings": 2**24,
}


@dataclass(frozen=True)
class LayerInputsShape:
    """Inputs of layers beside the stream, see LayerInputs. vocab_size: rows of their table; dim:
    features of a layer's input"""

    vocab_size: int
    dim: int


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """The configuration of a decoder. A family that states more has a subclass.

    architecture:            name of the family, as in `architectures`
    vocab_size:              width of the logits
    hidden_size:             features of the residual stream
    num_layers:              layers of the decoder, without those of `num_mtp_layers`
    num_heads, num_kv_heads: heads of queries, and of keys and values, which divide them
    head_dim:                features of a head
    norm:                    kind of the norms
    rope:                    how positions are turned into angles
    tie_word_embeddings:     the output matrix is that of the embeddings
    quantization:            how the checkpoint holds its matrices
    intermediate_size:       features within a feed-forward layer; with experts, of all experts of a
                             token together
    qkv_bias, out_bias:      biases of the attention
    mlp_bias:                biases of the feed-forward layers
    qk_norm:                 each query and key head is normalised
    is_qk_norm_whole:        instead, all query heads together, and all key heads together
    sliding_windows:         per layer: tokens, or None if the layer sees all tokens before
    max_position_embeddings: longest context, tokens
    embedding_scale:         factor on the embeddings
    stream_scale:            hidden states of the checkpoint ÷ those of the residual stream here
    logits_scale:            factor on the logits
    logits_limit:            logits x become c · tanh(x / c) with this limit c; None: no limit
    cache_scheme:            how the checkpoint wants keys and values cached; None: in the model's
                             dtype
    eos_token_ids:           from generation_config.json, else config.json; may be empty
    num_mtp_layers:          layers of a multi-token-prediction head that the checkpoint has behind
                             the model's own
    has_encoders:            its folder also contains encoders, see `multimodal`
    layer_inputs:            what layers get beside the stream; None: nothing
    latent:                  its attention is latent: one key head of `head_dim` features, the first
                             of which stand for the values, is stored; None: see `attention`
    linear:                  the attention of `linear_layers`, which store no keys; None: there are
                             no such layers
    has_attention_gate:      see AttentionShape.has_gate
    """

    architecture: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    norm: NormKind
    rope: RopeConfig
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    is_qk_norm_whole: bool = False
    tie_word_embeddings: bool
    sliding_windows: tuple[int | None, ...]
    max_position_embeddings: int
    embedding_scale: float = 1.0
    stream_scale: float = 1.0
    logits_scale: float = 1.0
    logits_limit: float | None = None
    quantization: Quantization = UNQUANTIZED
    cache_scheme: CacheScheme | None = None
    eos_token_ids: tuple[int, ...] = ()
    num_mtp_layers: int = 0
    has_encoders: bool = False
    layer_inputs: LayerInputsShape | None = None
    latent: LatentShape | None = None
    linear: DeltaShape | None = None
    linear_layers: frozenset[int] = frozenset()
    has_attention_gate: bool = False

    @classmethod
    def from_fields(
        cls,
        fields: Mapping[str, Any],
        *,
        head_dim: int | None = None,
        max_position_embeddings: int = 2048,
        eps: float = 1e-6,
        **own: Any,
    ) -> Self:
        """Read the fields of config.json that every family states in the same way. Raises
        CheckpointError.

        fields:   the fields of config.json; the first of its `architectures` is the family's
        head_dim: the size of a head if config.json states none; None: hidden_size /
                  num_attention_heads
        max_position_embeddings: longest context if config.json states none
        eps:      that of the norms if config.json states none
        own:      what the family has read itself, by the name of the field here
        """
        max_positions = size(fields, "max_position_embeddings", max_position_embeddings)
        vocab_size = size(fields, "vocab_size")
        stated = {
            "architecture": fields["architectures"][0],
            "vocab_size": vocab_size,
            "hidden_size": size(fields, "hidden_size"),
            "num_layers": size(fields, "num_hidden_layers"),
            **_heads(fields, head_dim),
            "norm": norm_kind(fields, eps),
            "tie_word_embeddings": flag(fields, "tie_word_embeddings"),
            "max_position_embeddings": max_positions,
            "quantization": read_quantization(fields),
            "cache_scheme": read_cache_scheme(fields),
            "eos_token_ids": token_ids(fields, "eos_token_id", vocab_size) or (),
            "num_mtp_layers": _num_mtp_layers(fields),
            **own,
        }
        if "rope" not in stated:
            stated["rope"] = RopeConfig.from_hf(fields, max_positions)
        if "intermediate_size" not in stated:
            stated["intermediate_size"] = size(fields, "intermediate_size")
        return cls(**stated)

    def of_one_more_layer(self) -> Self:
        """The configuration of a model of one layer, which is like one that would follow the last;
        an MTP head has such a layer."""
        return replace(
            self,
            num_layers=1,
            sliding_windows=self.sliding_windows[-1:],
            linear=None,
            linear_layers=frozenset(),
        )

    def key_layers(self, layers: Iterable[int]) -> list[int]:
        """Those of these layers that store keys."""
        return [layer for layer in layers if layer not in self.linear_layers]

    def key_heads(self, layer: int) -> tuple[int, int]:
        """Number and size of a layer's key heads."""
        return self.num_kv_heads, self.head_dim

    def key_source(self, layer: int) -> int:
        """The layer whose keys and values a layer reads: itself, or an earlier one."""
        return layer

    def attention_width(self, layer: int) -> int:
        """Features of a layer's queries, keys and values together."""
        num_kv_heads, head_dim = self.key_heads(layer)
        return (self.num_heads + 2 * num_kv_heads) * head_dim

    @property
    def rotary_dim(self) -> int:
        """Features of a query or key that a rotary table is made for, where all layers have the
        same."""
        return self.head_dim if self.latent is None else self.latent.rope_dim

    def rotary_dim_of(self, layer: int) -> int:
        """The same of one layer."""
        return self.key_heads(layer)[1] if self.latent is None else self.latent.rope_dim

    def attention(self, layer: int) -> AttentionShape:
        """The attention's shape in layer `layer`."""
        num_kv_heads, head_dim = self.key_heads(layer)
        return AttentionShape(
            num_heads=self.num_heads,
            num_kv_heads=num_kv_heads,
            head_dim=head_dim,
            rope=self.rope,
            qkv_bias=self.qkv_bias,
            out_bias=self.out_bias,
            qk_norm=self.norm if self.qk_norm else None,
            is_qk_norm_whole=self.is_qk_norm_whole,
            sliding_window=self.sliding_windows[layer],
            has_gate=self.has_attention_gate,
        )


def size(fields: Mapping[str, Any], name: str, default: int | None = None) -> int:
    """A size of the model that config.json states, at most LARGEST. Raises CheckpointError."""
    return positive_int(fields, name, default, at_most=LARGEST[name])


def norm_kind(fields: Mapping[str, Any], eps: float = 1e-6, weight_offset: float = 0.0) -> NormKind:
    """The kind of the norms. eps: if config.json states none. Raises CheckpointError."""
    return NormKind(positive_number(fields, "rms_norm_eps", eps, at_most=1.0), weight_offset)


def attention_biases(fields: Mapping[str, Any], default: bool = False) -> dict[str, bool]:
    """The biases of an attention in which all maps have one or none. default: if config.json does
    not say. Raises CheckpointError."""
    return dict.fromkeys(("qkv_bias", "out_bias"), flag(fields, "attention_bias", default))


def _num_mtp_layers(fields: Mapping[str, Any]) -> int:
    """The stated number of layers in the MTP head; 0 for an invalid value, which is refused only
    when the head is asked for."""
    stated = fields.get("num_nextn_predict_layers")
    return stated if type(stated) is int and 0 < stated <= LARGEST["num_hidden_layers"] else 0


def _heads(fields: Mapping[str, Any], head_dim: int | None) -> dict[str, int]:
    num_heads = size(fields, "num_attention_heads")
    num_kv_heads = size(fields, "num_key_value_heads", num_heads)
    head_dim = size(fields, "head_dim", head_dim or size(fields, "hidden_size") // num_heads)
    if num_heads % num_kv_heads or head_dim % 2:
        raise CheckpointError(
            f"{num_heads} heads of dimension {head_dim} with {num_kv_heads} key-value heads: the "
            "number of heads must be a multiple of the key-value heads, and the dimension even"
        )
    return {"num_heads": num_heads, "num_kv_heads": num_kv_heads, "head_dim": head_dim}
