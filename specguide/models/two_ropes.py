"""Owns TwoRopesConfig, for models whose layers with a window have a different rope."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import mapping, shown
from specguide.layers.attention import AttentionShape
from specguide.layers.rope import RopeConfig
from specguide.models.config import ModelConfig, size


@dataclass(frozen=True, kw_only=True)
class TwoRopesConfig(ModelConfig):
    """A configuration with two ropes: `rope` for the layers that see all tokens, `local_rope` for
    those with a window."""

    local_rope: RopeConfig

    def attention(self, layer: int) -> AttentionShape:
        """The attention's shape in layer `layer`."""
        shape = super().attention(layer)
        return shape if shape.sliding_window is None else replace(shape, rope=self.local_rope)


@dataclass(frozen=True)
class KindOfLayers:
    """The layers of one kind, named as in `layer_types`.

    theta:      theta if config.json states none
    theta_name: its name in a config.json that does not state ropes by kind
    is_scaled:  `rope_scaling` applies to these layers
    """

    name: str
    theta: float
    theta_name: str = "rope_theta"
    is_scaled: bool = False


def read_ropes(
    fields: Mapping[str, Any], full: KindOfLayers, local: KindOfLayers, max_positions: int
) -> dict[str, Any]:
    """`rope` and `local_rope`: stated in `rope_parameters` by kind (transformers 5), or flat
    (before). Raises CheckpointError.

    max_positions: longest context if config.json states none

    Parameters that stand beside the ropes by kind apply to no layer: transformers 5.10 writes some
    there.
    """
    by_kind = mapping(fields, "rope_parameters")
    are_stated = not by_kind.keys().isdisjoint((full.name, local.name))
    others = [
        name
        for name, value in by_kind.items()
        if name not in (full.name, local.name) and (isinstance(value, Mapping) or not are_stated)
    ]
    if others:
        raise CheckpointError(
            f"'rope_parameters' must have entries for {full.name} and {local.name} only, found "
            f"{shown(dict(by_kind))}"
        )
    length = size(fields, "max_position_embeddings", max_positions)
    ropes = []
    for kind in (full, local):
        theta = fields.get(kind.theta_name)
        stated = {
            "rope_theta": kind.theta if theta is None else theta,
            **mapping(by_kind, kind.name),
            **(mapping(fields, "rope_scaling") if kind.is_scaled else {}),
        }
        flat = {**fields, "rope_parameters": stated, "rope_scaling": None}
        ropes.append(RopeConfig.from_hf(flat, length))
    return dict(zip(("rope", "local_rope"), ropes, strict=True))
