"""Owns which hidden states of its target an EAGLE-3 head reads, in all spellings in use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import mapping, positive_int, shown

# Fields that state the aux layers, and what their numbers count: 0, the inputs of layers; 1, their
# outputs, which are the inputs of the next layers.
_LAYERS_AT_TOP = {
    "eagle_aux_hidden_state_layer_ids": 0,
    "aux_hidden_state_layer_ids": 0,
    "target_layer_ids": 1,
}
_LAYERS_IN_EAGLE_CONFIG = dict.fromkeys(_LAYERS_AT_TOP, 1)


def stated_layers(config: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The aux layers that config.json states, under any name, counted as inputs of layers; negative
    ones count from the last layer's output, which is -1. None if config.json states none. Raises
    CheckpointError.

    If outputs are counted, the first layer's output is 0 and -1 is the output before it: the
    embeddings.
    """
    stated = set()
    for place, offsets in (
        (config, _LAYERS_AT_TOP),
        (mapping(config, "eagle_config"), _LAYERS_IN_EAGLE_CONFIG),
    ):
        for name, offset in offsets.items():
            layers = place.get(name)
            if layers:
                stated.add(_inputs(name, layers, offset))
    if len(stated) > 1:
        raise CheckpointError(
            "config.json names the target's layers that the head reads twice, and differently: "
            "'eagle_aux_hidden_state_layer_ids' and 'aux_hidden_state_layer_ids' at the top level "
            "count inputs of layers; 'target_layer_ids', and all of them within 'eagle_config', "
            "count outputs"
        )
    if not stated:
        return None
    found = stated.pop()
    _check_number(config, found)
    return found


def tapped_layers(stated: tuple[int, ...] | None, num_layers: int) -> tuple[int, ...]:
    """The aux layers in a target of `num_layers` layers; by default its 2nd, its middle one and its
    last but 3rd, as in the EAGLE-3 paper.

    Raises CheckpointError if the target has no such layers.
    """
    layers = tuple(
        layer + num_layers + 1 if layer < 0 else layer
        for layer in stated or (2, num_layers // 2, num_layers - 3)
    )
    if not all(0 <= layer <= num_layers for layer in layers) or (not stated and num_layers < 3):
        raise CheckpointError(
            f"the head reads the inputs of layers {', '.join(map(str, layers))} of the target, "
            f"which has {num_layers} layers"
            + ("" if stated else "; set 'eagle_aux_hidden_state_layer_ids' in config.json")
        )
    return layers


def _inputs(name: str, layers: Any, offset: int) -> tuple[int, ...]:
    if not isinstance(layers, list) or not all(type(layer) is int for layer in layers):
        raise CheckpointError(f"{name!r} must be a list of integers, found {shown(layers)}")
    if offset and min(layers) < -offset:
        raise CheckpointError(
            f"{name!r} must hold numbers of layers from 0, or -1 for the embeddings; found "
            f"{shown(layers)}"
        )
    return tuple(layer + offset for layer in layers)


def _check_number(config: Mapping[str, Any], layers: tuple[int, ...]) -> None:
    stated = positive_int(config, "num_aux_hidden_states", len(layers))
    if stated != len(layers):
        raise CheckpointError(
            f"'num_aux_hidden_states' is {stated}, but config.json lists {len(layers)} layers, "
            f"{shown(list(layers))}"
        )
