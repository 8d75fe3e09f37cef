"""Owns the Phi-3 family, of Phi-3, 3.5 and 4 (Abdin et al. 2024, arXiv 2404.14219): a Llama with
LongRoPE whose projections are fused in the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from specguide.inputs.json_fields import mapping
from specguide.layers.attention import AttentionShape
from specguide.layers.feed_forward import FUSED
from specguide.layers.rope import RopeConfig
from specguide.models import dense
from specguide.models.config import ModelConfig, size
from specguide.models.family import Family
from specguide.models.windows import optional_windows


@dataclass(frozen=True, kw_only=True)
class Phi3Config(ModelConfig):
    """The configuration of a Phi-3. Queries, keys and values are one map."""

    def attention(self, layer: int) -> AttentionShape:
        """The attention's shape in layer `layer`."""
        return replace(super().attention(layer), is_fused=True)


def read(fields: Mapping[str, Any]) -> Phi3Config:
    """Read config.json with the defaults of transformers' Phi3Config."""
    max_positions = size(fields, "max_position_embeddings", 4096)
    return Phi3Config.from_fields(
        fields,
        max_position_embeddings=max_positions,
        eps=1e-5,
        rope=RopeConfig.from_hf(_with_longrope(fields), max_positions, share=1.0),
        sliding_windows=optional_windows(fields),
    )


def _with_longrope(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields, in which a LongRoPE is called "longrope": the first checkpoints call it "su" or
    "yarn"."""
    rope = dict(mapping(fields, "rope_scaling") or mapping(fields, "rope_parameters"))
    rope_type = rope.get("rope_type") or rope.get("type")
    if rope_type in ("su", "yarn"):
        rope["rope_type"] = "longrope"
    return {**fields, "rope_scaling": None, "rope_parameters": rope}


PHI3 = Family(
    ("Phi3ForCausalLM",),
    read,
    partial(dense.build_layer, names=FUSED),
    neutral={"full_attn_mod": (None, 1), "interpolate_factor": (None, 1)},  # of Phi-4-mini
)
