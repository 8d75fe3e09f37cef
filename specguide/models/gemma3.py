"""Owns the Gemma 3 family, text only (Gemma Team 2025, arXiv 2503.19786): norms on both sides of
attention and MLP, and five layers with a window for each layer that sees all tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from specguide.inputs.json_fields import flag, positive_int, positive_number
from specguide.layers.attention import AttentionShape
from specguide.models.config import attention_biases, norm_kind, size
from specguide.models.family import Family
from specguide.models.gemma2 import GELU, build_layer
from specguide.models.two_ropes import KindOfLayers, TwoRopesConfig, read_ropes
from specguide.models.windows import periodic_windows

_FIELDS = (
    "query_pre_attn_scalar",
    "rope_local_base_freq",
    "sliding_window_pattern",
    "_sliding_window_pattern",
)
_FULL = KindOfLayers("full_attention", 1e6, is_scaled=True)
_LOCAL = KindOfLayers("sliding_attention", 1e4, "rope_local_base_freq")


@dataclass(frozen=True, kw_only=True)
class Gemma3Config(TwoRopesConfig):
    """The configuration of a Gemma 3. query_pre_attn_scalar: the attention's dot products are
    divided by its square root"""

    query_pre_attn_scalar: float

    def attention(self, layer: int) -> AttentionShape:
        """The attention's shape in layer `layer`."""
        return replace(super().attention(layer), scale=self.query_pre_attn_scalar**-0.5)


def read(fields: Mapping[str, Any]) -> Gemma3Config:
    """Read config.json with the defaults of transformers' Gemma3TextConfig."""
    period = positive_int(fields, "sliding_window_pattern", 6)
    return Gemma3Config.from_fields(
        fields,
        head_dim=256,
        max_position_embeddings=131_072,
        norm=norm_kind(fields, weight_offset=1),
        qk_norm=True,
        tie_word_embeddings=flag(fields, "tie_word_embeddings", True),
        sliding_windows=periodic_windows(fields, period),
        embedding_scale=size(fields, "hidden_size") ** 0.5,
        query_pre_attn_scalar=positive_number(fields, "query_pre_attn_scalar", 256),
        **attention_biases(fields),
        **read_ropes(fields, _FULL, _LOCAL, 131_072),
    )


GEMMA3 = Family(
    ("Gemma3ForCausalLM",),
    read,
    build_layer,
    fields=_FIELDS,
    neutral=GELU,
)
