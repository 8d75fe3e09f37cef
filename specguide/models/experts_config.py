"""Owns ExpertsConfig, the configuration of a decoder with experts, and the layer of those in which
every layer has them."""

from __future__ import annotations

from dataclasses import dataclass

from specguide.layers.decoder_layer import DecoderLayer
from specguide.layers.experts import Experts, ExpertsLayout, ExpertsShape
from specguide.layers.placement import Placement
from specguide.models import dense
from specguide.models.config import ModelConfig


@dataclass(frozen=True, kw_only=True)
class ExpertsConfig(ModelConfig):
    """The configuration of a decoder with experts. experts: those of a layer"""

    experts: ExpertsShape


def layer_of_experts(
    config: ExpertsConfig, index: int, place: Placement, *, name: str, layout: ExpertsLayout
) -> DecoderLayer:
    """Layer `index`: a dense layer whose MLP, which the checkpoint calls `name`, is a mixture of
    experts."""
    experts = Experts.create(place.within(name), config.hidden_size, config.experts, layout)
    return dense.layer_around(experts, config, index, place)
