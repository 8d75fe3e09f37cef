"""Owns Eagle3Config: what the config.json of an EAGLE-3 head says, in the spellings that are in use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specguide.errors import CheckpointError
from specguide.models.config import ModelConfig, positive_int, read_json

# Later variants of the head, which compute something else. Each must be absent or one of these values.
UNSUPPORTED_UNLESS: dict[str, tuple[Any, ...]] = {
    "fc_norm": (None, False),
    "norm_before_fc": (None, False),
    "norm_output": (None, False),
    "use_aux_hidden_state": (None, True),
    "parallel_draft_step": (None, 1),
}


@dataclass(frozen=True)
class Eagle3Config:
    """An EAGLE-3 head.

    layer:                its one transformer layer; layer.vocab_size is the target's
    draft_vocab_size:     tokens that it can propose
    target_hidden_size:   of the target whose hidden states it reads
    norm_before_residual: the residual is the normalised feature, not the feature
    stated_layers:        the tapped layers as `Decoder.forward` counts them (a layer's input); None: the default
    """

    layer: ModelConfig
    draft_vocab_size: int
    target_hidden_size: int
    norm_before_residual: bool
    stated_layers: tuple[int, ...] | None

    @classmethod
    def from_folder(cls, folder: str | Path) -> Eagle3Config:
        """Read config.json; raises CheckpointError when it is unreadable or asks for what is not implemented."""
        path = Path(folder) / "config.json"
        config = read_json(path)
        try:
            return cls.from_hf(config)
        except CheckpointError as error:
            raise CheckpointError(f"{path}: {error}") from None

    @classmethod
    def from_hf(cls, config: Mapping[str, Any]) -> Eagle3Config:
        """From the contents of config.json; raises CheckpointError.

        Neither the stated architecture nor the number of layers is looked at: heads are published under their
        target's. What the head really is, its weights say, and every one of them must find its place.
        """
        config = _flat(config)
        for name, accepted in UNSUPPORTED_UNLESS.items():
            if config.get(name) not in accepted:
                raise CheckpointError(f"{name!r} {config[name]!r} is not supported in an EAGLE-3 head")
        layer = ModelConfig.from_hf({**config, "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 1,
                                     "layer_types": None, "tie_word_embeddings": False})
        draft_vocab_size = positive_int(config, "draft_vocab_size", layer.vocab_size)
        if draft_vocab_size > layer.vocab_size:
            raise CheckpointError(f"'draft_vocab_size' {draft_vocab_size} is more than 'vocab_size' {layer.vocab_size}")
        return cls(layer=layer, draft_vocab_size=draft_vocab_size,
                   target_hidden_size=positive_int(config, "target_hidden_size", layer.hidden_size),
                   norm_before_residual=bool(config.get("norm_before_residual", False)),
                   stated_layers=_stated_layers(config))

    def tapped_layers(self, num_target_layers: int) -> tuple[int, ...]:
        """The layers of the target to tap; by default its 2nd, middle and last but 3rd, as EAGLE-3 was published.

        Raises CheckpointError when the target has no such layers.
        """
        layers = self.stated_layers or (2, num_target_layers // 2, num_target_layers - 3)
        if not all(0 <= layer <= num_target_layers for layer in layers):
            raise CheckpointError(f"the head taps the inputs of layers {', '.join(map(str, layers))} of the target, "
                                  f"which has {num_target_layers} layers"
                                  + ("" if self.stated_layers else "; state 'eagle_aux_hidden_state_layer_ids'"))
        return layers


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """One level: the layer's settings that `speculators` nests, and the flags inside `eagle_config`."""
    nested = config.get("transformer_layer_config")
    if nested is not None and "norm_before_residual" not in config:
        raise CheckpointError("'norm_before_residual' is missing, and its default has changed between versions of "
                              "this format; state it")
    eagle_config = config.get("eagle_config") or {}
    flags = {name: eagle_config[name] for name in UNSUPPORTED_UNLESS if name in eagle_config}
    return {**(nested or {}), **{name: value for name, value in config.items() if value is not None}, **flags}


def _stated_layers(config: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The two spellings count differently: at the top level a layer's input, within `eagle_config` its output."""
    stated = set()
    for layers, offset in ((config.get("eagle_aux_hidden_state_layer_ids"), 0),
                           ((config.get("eagle_config") or {}).get("eagle_aux_hidden_state_layer_ids"), 1)):
        if layers:
            if not isinstance(layers, list) or not all(type(layer) is int for layer in layers):
                raise CheckpointError("'eagle_aux_hidden_state_layer_ids' must be a list of integers, found "
                                      f"{layers!r}")
            stated.add(tuple(layer + offset for layer in layers))
    if len(stated) > 1:
        raise CheckpointError("'eagle_aux_hidden_state_layer_ids' is stated twice, and differently: at the top level "
                              "it counts the inputs of layers, within 'eagle_config' their outputs")
    return stated.pop() if stated else None
