"""Owns Family: what one architecture adds to the decoder that all share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from specguide.layers.decoder_layer import Layer
from specguide.layers.placement import Placement
from specguide.models.config import ModelConfig

ConfigT = TypeVar("ConfigT", bound=ModelConfig)


@dataclass(frozen=True)
class Family(Generic[ConfigT]):
    """A family of models, one file of this folder.

    architectures: its names in config.json's `architectures`
    read:          makes the configuration from the fields of config.json; raises CheckpointError
                   for what is wrong or not implemented
    build_layer:   makes a layer with uninitialised weights; layers are numbered from 0, and the
                   names of a layer's tensors in the checkpoint begin with the placement's prefix
    fields:        names of the fields that `read` reads, besides `config_fields.READ`
    neutral:       values without effect in this family, where they differ from
                   `config_fields.NEUTRAL`
    """

    architectures: tuple[str, ...]
    read: Callable[[Mapping[str, Any]], ConfigT]
    build_layer: Callable[[ConfigT, int, Placement], Layer]
    fields: Collection[str] = ()
    neutral: Mapping[str, Collection[Any]] = field(default_factory=dict)
