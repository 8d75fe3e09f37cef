"""Owns the Gemma 4 family, text only: layers with a window and layers that see all tokens, which
have larger and fewer key heads, and take the values from the product of the keys. The small models
(E2B, E4B) have layers that read the keys of others, and inputs of each layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import flag, mapping, positive_int, shown
from specguide.kernels.experts import GELU_TANH
from specguide.layers.attention import AttentionShape
from specguide.layers.experts import ExpertsShape
from specguide.layers.placement import Placement
from specguide.models.config import LARGEST, LayerInputsShape, attention_biases, size
from specguide.models.expert_fields import experts_shape
from specguide.models.family import Family
from specguide.models.gemma2 import GELU, limit_of
from specguide.models.gemma4_layer import Gemma4Layer, LayerOptions
from specguide.models.two_ropes import KindOfLayers, TwoRopesConfig, read_ropes
from specguide.models.windows import Windows, periodic_windows

_FULL = KindOfLayers("full_attention", 1e6)
_LOCAL = KindOfLayers("sliding_attention", 1e4)
_ROPES = {
    "full_attention": {
        "rope_type": "proportional",
        "partial_rotary_factor": 0.25,
        "rope_theta": 1e6,
    },
    "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
}
_FIELDS = (
    *("global_head_dim", "num_global_key_value_heads", "per_layer_config", "attention_k_eq_v"),
    *("final_logit_softcapping", "hidden_size_per_layer_input", "vocab_size_per_layer_input"),
    *("num_kv_shared_layers", "use_double_wide_mlp"),
    *("enable_moe_block", "num_experts", "top_k_experts", "moe_intermediate_size"),
)

Heads = tuple[int, int]
"""Number and size of a layer's key heads."""


@dataclass(frozen=True, kw_only=True)
class Gemma4Config(TwoRopesConfig):
    """The configuration of a Gemma 4.

    global_heads:    number and size of the key heads in layers that see all tokens
    are_keys_values: these layers have no map of their own for values
    sources:         the layer whose keys and values each layer reads
    mlp_size:        inner features of a layer's MLP
    shared_mlp_size: the same where a layer reads the keys of another one
    experts:         those beside the MLP; None: there are none
    """

    global_heads: Heads
    are_keys_values: bool
    sources: tuple[int, ...]
    mlp_size: int
    shared_mlp_size: int
    experts: ExpertsShape | None

    def key_heads(self, layer: int) -> Heads:
        """Number and size of a layer's key heads."""
        is_global = self.sliding_windows[layer] is None
        return self.global_heads if is_global else super().key_heads(layer)

    def key_source(self, layer: int) -> int:
        """The layer whose keys and values a layer reads."""
        return self.sources[layer]

    def attention(self, layer: int) -> AttentionShape:
        """The attention's shape in layer `layer`."""
        is_global = self.sliding_windows[layer] is None
        return replace(
            super().attention(layer),
            scale=1.0,
            has_value_norm=True,
            are_keys_values=is_global and self.are_keys_values,
        )


def read(fields: Mapping[str, Any], *, has_layer_inputs: bool, defaults: Heads) -> Gemma4Config:
    """Read config.json with the defaults of transformers.

    has_layer_inputs: layers have inputs of their own if config.json does not say so
    defaults:         longest context and window
    """
    max_positions, window = defaults
    fields = {"num_key_value_heads": 4, **fields}
    if fields.get("rope_parameters") is None:
        fields = {**fields, "rope_parameters": _ROPES}
    # the last layer sees all tokens, whatever config.json says, as in transformers
    windows = (*periodic_windows(fields, 6, window)[:-1], None)
    mlp_size, experts = size(fields, "intermediate_size"), _experts(fields)
    shared_size = mlp_size * (2 if flag(fields, "use_double_wide_mlp") else 1)
    num_chosen = 0 if experts is None else experts.rule.num_chosen * experts.expert_size
    return Gemma4Config.from_fields(
        fields,
        head_dim=256,
        max_position_embeddings=max_positions,
        intermediate_size=shared_size + num_chosen,
        qk_norm=True,
        tie_word_embeddings=flag(fields, "tie_word_embeddings", True),
        sliding_windows=windows,
        embedding_scale=size(fields, "hidden_size") ** 0.5,
        logits_limit=limit_of(fields, "final_logit_softcapping", None),
        global_heads=_global_heads(fields, windows),
        are_keys_values=flag(fields, "attention_k_eq_v"),
        sources=_sources(fields, windows),
        layer_inputs=_layer_inputs(fields, has_layer_inputs),
        mlp_size=mlp_size,
        shared_mlp_size=shared_size,
        experts=experts,
        **attention_biases(fields),
        **read_ropes(fields, _FULL, _LOCAL, max_positions),
    )


def build_layer(config: Gemma4Config, index: int, place: Placement) -> Gemma4Layer:
    """Layer `index` with uninitialised weights."""
    is_shared = config.key_source(index) != index
    return Gemma4Layer.create(
        place,
        config,
        config.attention(index),
        LayerOptions(
            is_shared=is_shared,
            mlp_size=config.shared_mlp_size if is_shared else config.mlp_size,
            experts=config.experts,
        ),
    )


def _sources(fields: Mapping[str, Any], windows: Windows) -> tuple[int, ...]:
    """The last `num_kv_shared_layers` layers read the keys of the last layer of their kind before
    them. Raises CheckpointError if there is none."""
    num_layers = len(windows)
    stated = fields.get("num_kv_shared_layers")
    num_own = num_layers - (positive_int(fields, "num_kv_shared_layers") if stated else 0)
    last = {window: layer for layer, window in enumerate(windows[: max(0, num_own)])}
    if not last.keys() >= set(windows):
        raise CheckpointError(
            f"'num_kv_shared_layers' {stated} leaves no layer of each kind whose keys the others "
            f"could read, of {num_layers} layers"
        )
    return (*range(num_own), *(last[window] for window in windows[num_own:]))


def _layer_inputs(fields: Mapping[str, Any], is_default: bool) -> LayerInputsShape | None:
    dim = fields.get("hidden_size_per_layer_input", 256 if is_default else None)
    if not dim:
        return None
    name, vocab_size = "vocab_size_per_layer_input", size(fields, "vocab_size")
    num_rows = positive_int(fields, name, 262_144, at_most=LARGEST["vocab_size"])
    if num_rows < vocab_size:
        raise CheckpointError(f"{name!r} must be at least {vocab_size}, found {num_rows}")
    dim = positive_int({"hidden_size_per_layer_input": dim}, "hidden_size_per_layer_input")
    return LayerInputsShape(num_rows, dim)


def _experts(fields: Mapping[str, Any]) -> ExpertsShape | None:
    """Those of each layer. Raises CheckpointError if config.json says too little of them."""
    if not flag(fields, "enable_moe_block"):
        return None
    expert_size = size(fields, "moe_intermediate_size")
    num_chosen = positive_int(fields, "top_k_experts")
    return experts_shape(
        {**fields, "num_experts_per_tok": num_chosen},
        num_experts=positive_int(fields, "num_experts"),
        num_chosen=num_chosen,
        expert_size=expert_size,
        factors="router.per_expert_scale",
        limits=GELU_TANH,
    )


def _global_heads(fields: Mapping[str, Any], windows: Windows) -> Heads:
    """The key heads of layers that see all tokens: stated by layer (transformers 5.24), or once
    (before). Raises CheckpointError."""
    num_heads = size(fields, "num_attention_heads")
    num_local = size(fields, "num_key_value_heads")
    if fields.get("per_layer_config") is not None:
        own = _by_layer(fields, windows)
        stated = {"num_key_value_heads": num_local, "head_dim": fields.get("head_dim"), **own}
        heads = size(stated, "num_key_value_heads"), size(stated, "head_dim", 256)
    else:
        most = LARGEST["head_dim"]
        dim = positive_int(fields, "global_head_dim", 512, at_most=most)
        is_stated = fields.get("num_global_key_value_heads") is not None
        name = "num_global_key_value_heads"
        is_used = is_stated and flag(fields, "attention_k_eq_v")
        heads = positive_int(fields, name) if is_used else num_local, dim
    if num_heads % heads[0] or heads[1] % 2:
        raise CheckpointError(
            f"{num_heads} heads of dimension {heads[1]} with {heads[0]} key-value heads in layers "
            "of full attention: the number of heads must be a multiple of the key-value heads, "
            "and the dimension even"
        )
    return heads


def _by_layer(fields: Mapping[str, Any], windows: Windows) -> Mapping[str, Any]:
    """What `per_layer_config` states of each layer that sees all tokens. Raises CheckpointError if
    it states more, or if they differ."""
    stated = mapping(fields, "per_layer_config")
    names = [str(layer) for layer, window in enumerate(windows) if window is None]
    # transformers fills numbers up with zeros, "05" where there are ten layers or more
    by_layer = {str(name).lstrip("0") or "0": mapping(stated, name) for name in stated}
    first = by_layer.get(names[0], {})
    expected = {name: first for name in names if first}
    if by_layer != expected or not first.keys() <= {"head_dim", "num_key_value_heads"}:
        raise CheckpointError(
            "'per_layer_config' must state the same 'head_dim' and 'num_key_value_heads' for each "
            f"layer of full attention and nothing else, found {shown(dict(stated))}"
        )
    return first


_NEUTRAL: dict[str, tuple[Any, ...]] = {
    **GELU,
    "use_bidirectional_attention": (None, False, "vision"),
}
"""Attention in both directions is among the tokens of images alone, which are not read."""

GEMMA4 = Family(
    ("Gemma4ForCausalLM",),
    partial(read, has_layer_inputs=True, defaults=(131_072, 512)),
    build_layer,
    fields=_FIELDS,
    neutral=_NEUTRAL,
)
GEMMA4_UNIFIED = Family(
    ("Gemma4UnifiedForCausalLM",),
    partial(read, has_layer_inputs=False, defaults=(262_144, 1024)),
    build_layer,
    fields=_FIELDS,
    neutral=_NEUTRAL,
)
"""Gemma 4 12B."""
