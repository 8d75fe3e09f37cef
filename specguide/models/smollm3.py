"""Owns the SmolLM3 family (Hugging Face 2025): a Llama in which every fourth layer has no positions
(NoPE)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import flag, positive_int, shown
from specguide.layers.attention import AttentionShape
from specguide.models.config import ModelConfig, attention_biases, size
from specguide.models.dense import build_layer
from specguide.models.family import Family
from specguide.models.windows import Windows, read_layer_types, windows_of

_FIELDS = ("no_rope_layers", "no_rope_layer_interval")


@dataclass(frozen=True, kw_only=True)
class SmolLm3Config(ModelConfig):
    """The configuration of a SmolLM3. has_rope: whether each layer has rotary positions"""

    has_rope: tuple[bool, ...]

    def attention(self, layer: int) -> AttentionShape:
        """The attention's shape in layer `layer`."""
        shape = super().attention(layer)
        rope = self.rope if self.has_rope[layer] else replace(self.rope, share=0.0)
        return replace(shape, rope=rope)


def read(fields: Mapping[str, Any]) -> SmolLm3Config:
    """Read config.json with the defaults of transformers' SmolLM3Config."""
    has_rope = _has_rope(fields)
    return SmolLm3Config.from_fields(
        {"rope_theta": 2e6, **fields},
        max_position_embeddings=32_768,
        mlp_bias=flag(fields, "mlp_bias"),
        tie_word_embeddings=flag(fields, "tie_word_embeddings", True),
        sliding_windows=_windows(fields, has_rope),
        has_rope=has_rope,
        **attention_biases(fields),
    )


def _has_rope(fields: Mapping[str, Any]) -> tuple[bool, ...]:
    num_layers = size(fields, "num_hidden_layers")
    stated = fields.get("no_rope_layers")
    if stated is None:
        interval = positive_int(fields, "no_rope_layer_interval", 4)
        return tuple((layer + 1) % interval != 0 for layer in range(num_layers))
    if (
        not isinstance(stated, list)
        or len(stated) < num_layers
        or any(value not in (0, 1) for value in stated)
    ):
        raise CheckpointError(
            f"'no_rope_layers' must be 1 (with rope) or 0 for each of the {num_layers} layers, "
            f"found {shown(stated)}"
        )
    return tuple(bool(value) for value in stated[:num_layers])


def _windows(fields: Mapping[str, Any], has_rope: tuple[bool, ...]) -> Windows:
    """Each layer's window: for the layers that `layer_types` names, or else for those without
    positions."""
    if not flag(fields, "use_sliding_window") or fields.get("sliding_window") is None:
        return (None,) * len(has_rope)
    kinds = read_layer_types(fields, len(has_rope)) or [
        "full_attention" if has else "sliding_attention" for has in has_rope
    ]
    return windows_of(kinds, positive_int(fields, "sliding_window"))


SMOLLM3 = Family(("SmolLM3ForCausalLM",), read, build_layer, fields=_FIELDS)
