"""Owns the reading of a model's sliding windows from config.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import flag, positive_int, shown
from specguide.models.config import size

_FULL = "full_attention"
_SLIDING = "sliding_attention"
_DEFAULT = 4096
"""The window, tokens, if config.json states none."""

Windows = tuple[int | None, ...]
"""The window of each layer, tokens; None: the layer attends to all tokens before."""


def no_windows(fields: Mapping[str, Any]) -> Windows:
    """The windows of a family without windows. A window in config.json has no effect, as in
    transformers, unless a flag insists on it; then CheckpointError is raised."""
    window = _stated_window(fields, None)
    is_used = flag(fields, "use_sliding_window")
    if window is not None and is_used:
        raise CheckpointError(
            f"'use_sliding_window' with 'sliding_window' {window} is not supported: this "
            "architecture has no sliding window"
        )
    return _uniform(fields, None)


def uniform_windows(fields: Mapping[str, Any]) -> Windows:
    """The stated `sliding_window` in all layers; null: no windows. Raises CheckpointError."""
    return _uniform(fields, _stated_window(fields, _DEFAULT))


def optional_windows(fields: Mapping[str, Any]) -> Windows:
    """The `sliding_window` in all layers if one is stated, else no windows. Raises
    CheckpointError."""
    return _uniform(fields, _stated_window(fields, None))


def flagged_windows(fields: Mapping[str, Any]) -> Windows:
    """The `sliding_window` if `use_sliding_window` is true, in the layers that `layer_types` names,
    or from `max_window_layers` on. Raises CheckpointError."""
    num_layers = size(fields, "num_hidden_layers")
    layer_types = read_layer_types(fields, num_layers)
    is_used = flag(fields, "use_sliding_window")
    window = _stated_window(fields, _DEFAULT) if is_used else None
    if layer_types is None:
        first = 0
        if fields.get("max_window_layers") != 0:
            first = positive_int(fields, "max_window_layers", 28)
        layer_types = [_FULL] * min(first, num_layers) + [_SLIDING] * max(0, num_layers - first)
    elif window is None and _SLIDING in layer_types:
        raise CheckpointError(
            "'layer_types' has 'sliding_attention', but 'sliding_window' is missing or not used"
        )
    return windows_of(layer_types, window)


def periodic_windows(fields: Mapping[str, Any], period: int, default: int = _DEFAULT) -> Windows:
    """The `sliding_window` in the layers that `layer_types` names, or else in all but every
    `period`-th layer. default: the window if config.json states none. Raises CheckpointError."""
    num_layers = size(fields, "num_hidden_layers")
    kinds = read_layer_types(fields, num_layers) or [
        _SLIDING if (layer + 1) % period else _FULL for layer in range(num_layers)
    ]
    return windows_of(kinds, positive_int(fields, "sliding_window", default))


def windows_of(layer_types: list[str], window: int | None) -> Windows:
    """Each layer's window: `window` where its type is "sliding_attention", else None."""
    return tuple(window if kind == _SLIDING else None for kind in layer_types)


def read_layer_types(
    fields: Mapping[str, Any],
    num_layers: int | None = None,
    known: tuple[str, str] = (_FULL, _SLIDING),
) -> list[str] | None:
    """The stated `layer_types`, each one of `known`; None if not stated. Raises CheckpointError.

    num_layers: required number of entries; None: one or more
    """
    kinds = fields.get("layer_types")
    if kinds is None:
        return None
    if (
        not isinstance(kinds, list)
        or not kinds
        or num_layers not in (None, len(kinds))
        or not all(kind in known for kind in kinds)
    ):
        layers = "each layer" if num_layers is None else f"each of the {num_layers} layers"
        raise CheckpointError(
            f"'layer_types' must be {known[0]!r} or {known[1]!r} for {layers}, found {shown(kinds)}"
        )
    return kinds


def _stated_window(fields: Mapping[str, Any], default: int | None) -> int | None:
    if fields.get("sliding_window", default) is None:
        return None
    return positive_int(fields, "sliding_window", default)


def _uniform(fields: Mapping[str, Any], window: int | None) -> Windows:
    num_layers = size(fields, "num_hidden_layers")
    kind = _FULL if window is None else _SLIDING
    if not set(read_layer_types(fields, num_layers) or ()) <= {kind}:
        raise CheckpointError(
            "'layer_types' that differ from layer to layer are not supported here"
        )
    return (window,) * num_layers
