"""Owns `hold_frequencies`, for ropes whose frequencies transformers chooses again in each pass."""

from __future__ import annotations

from typing import Any

from torch import nn


def hold_frequencies(model: nn.Module, max_positions: int) -> None:
    """Have each rope of a model of transformers keep the frequencies of `max_positions`.

    A pass here has tokens of many requests, and cached keys are not rotated again, so no pass may
    change the frequencies: "longrope" keeps those that RopeConfig describes, and "dynamic" those of
    the model's own context, beyond which nothing is served.
    """
    module: Any
    for module in model.modules():
        kinds = getattr(module, "rope_type", None)
        if isinstance(kinds, dict):
            module.rope_type = {
                layers: _held(module, kind, max_positions, layers) for layers, kind in kinds.items()
            }
        elif isinstance(kinds, str):
            module.rope_type = _held(module, kinds, max_positions)


def _held(module: Any, kind: str, max_positions: int, layers: str | None = None) -> str:
    """The type of rope under which `module` no longer changes its frequencies.

    layers: the kind of layers that the rope belongs to; None: all
    """
    if kind == "longrope":
        from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

        buffer = module.get_buffer("inv_freq" if layers is None else f"{layers}_inv_freq")
        frequencies, _ = ROPE_INIT_FUNCTIONS[kind](
            module.config, buffer.device, seq_len=max_positions, layer_type=layers
        )
        buffer.copy_(frequencies)
    return "default" if kind in ("dynamic", "longrope") else kind
