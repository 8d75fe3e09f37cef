"""Owns Eagle3Config: what the config.json of an EAGLE-3 head says, in the spellings that are in
use."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from specguide.errors import CheckpointError
from specguide.json_fields import flag, mapping, naming, positive_int, read_json, shown
from specguide.models.config import ModelConfig
from specguide.models.config_fields import check_neutral
from specguide.models.registry import config_of
from specguide.models.windows import read_layer_types

# Variants of the head, which compute something else. Each must be absent or one of these values.
NEUTRAL: dict[str, Collection[Any]] = {
    "fc_norm": (None, False),
    "norm_before_fc": (None, False),
    "norm_output": (None, False),
    "use_aux_hidden_state": (None, True),
    "use_input_layernorm_in_first_layer": (None, True),
    "use_last_layernorm": (None, True),
    "use_mtp_layernorm": (None, False),
    "parallel_draft_step": (None, 1),
    "parallel_drafting": (None, False),
    "bias": (None, False),
    "speculators_model_type": (None, "eagle3"),
}

# The layers of the target whose hidden states the head reads, and what such a number counts: 0, the
# inputs of layers; 1, their outputs, which are the inputs of the layers that follow.
_LAYERS_AT_TOP = {
    "eagle_aux_hidden_state_layer_ids": 0,
    "aux_hidden_state_layer_ids": 0,
    "target_layer_ids": 1,
}
_LAYERS_IN_EAGLE_CONFIG = dict.fromkeys(_LAYERS_AT_TOP, 1)

# Beside what a dense decoder states; the second half tells where a head comes from.
_KNOWN = frozenset(
    (
        *NEUTRAL,
        *_LAYERS_AT_TOP,
        "draft_vocab_size",
        "target_hidden_size",
        "norm_before_residual",
        "num_aux_hidden_states",
        "eagle_config",
        "transformer_layer_config",
        "next_layer_regular",
        "has_lm_head",
        "has_embed_tokens",
        "embed_requires_grad",
        "has_no_defaults_at_init",
        "speculators_config",
        "speculators_version",
        "target_model_type",
        "target_layer_count",
    )
)


@dataclass(frozen=True)
class Eagle3Config:
    """An EAGLE-3 head.

    layer:                its one transformer layer; layer.vocab_size is the target's
    draft_vocab_size:     tokens that it can propose
    target_hidden_size:   of the target whose hidden states it reads
    norm_before_residual: the residual is the normalised feature, not the feature
    tie_word_embeddings:  where it has no output matrix of its own, that is the matrix of its
                          embeddings
    stated_layers:        the aux layers as `Decoder.forward` counts them (a layer's input);
                          None: the default
    """

    layer: ModelConfig
    draft_vocab_size: int
    target_hidden_size: int
    norm_before_residual: bool
    tie_word_embeddings: bool
    stated_layers: tuple[int, ...] | None

    @classmethod
    def from_folder(cls, folder: str | Path) -> Eagle3Config:
        """Read config.json; raises CheckpointError when it is unreadable or asks for what is not
        implemented."""
        path = Path(folder) / "config.json"
        config = read_json(path)
        with naming(path):
            return cls.from_hf(config)

    @classmethod
    def from_hf(cls, config: Mapping[str, Any]) -> Eagle3Config:
        """From the contents of config.json; raises CheckpointError.

        Neither the stated architecture nor the number of layers is looked at: heads are published
        under their target's. What the head really is, its weights say, and every one of them must
        find its place.
        """
        stated_layers = _stated_layers(config)
        config = _flat(config)
        check_neutral(config, NEUTRAL)
        if stated_layers:
            _check_num_layers(config, stated_layers)
        layer = config_of(
            {
                **config,
                "architectures": ["LlamaForCausalLM"],
                "num_hidden_layers": 1,
                "sliding_window": None,
                "layer_types": None,
            },
            known=_KNOWN,
        )
        draft_vocab_size = positive_int(config, "draft_vocab_size", layer.vocab_size)
        if draft_vocab_size > layer.vocab_size:
            raise CheckpointError(
                f"'draft_vocab_size' {draft_vocab_size} is more than 'vocab_size' "
                f"{layer.vocab_size}"
            )
        return cls(
            layer=replace(layer, sliding_windows=(_sliding_window(config),)),
            draft_vocab_size=draft_vocab_size,
            target_hidden_size=positive_int(config, "target_hidden_size", layer.hidden_size),
            norm_before_residual=flag(config, "norm_before_residual"),
            tie_word_embeddings=layer.tie_word_embeddings,
            stated_layers=stated_layers,
        )

    def aux_layers(self, num_target_layers: int) -> tuple[int, ...]:
        """The layers of the target to tap; by default its 2nd, middle and last but 3rd, as EAGLE-3
        was published.

        Raises CheckpointError when the target has no such layers.
        """
        layers = self.stated_layers or (2, num_target_layers // 2, num_target_layers - 3)
        if not all(0 <= layer <= num_target_layers for layer in layers):
            raise CheckpointError(
                f"the head reads the inputs of layers {', '.join(map(str, layers))} of the target, "
                f"which has {num_target_layers} layers"
                + ("" if self.stated_layers else "; state 'eagle_aux_hidden_state_layer_ids'")
            )
        return layers


def _flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """One level: the layer's settings that `speculators` nests, and what `eagle_config` says beside
    the layers."""
    nested = mapping(config, "transformer_layer_config")
    if nested and "norm_before_residual" not in config:
        raise CheckpointError(
            "'norm_before_residual' is missing, and its default has changed between versions of "
            "this format; state it"
        )
    eagle_config = {
        name: value
        for name, value in mapping(config, "eagle_config").items()
        if name not in _LAYERS_IN_EAGLE_CONFIG
    }
    return {
        **nested,
        **{name: value for name, value in config.items() if value is not None},
        **eagle_config,
    }


def _check_num_layers(config: Mapping[str, Any], stated_layers: tuple[int, ...]) -> None:
    stated = positive_int(config, "num_aux_hidden_states", len(stated_layers))
    if stated != len(stated_layers):
        raise CheckpointError(
            f"'num_aux_hidden_states' {stated} contradicts the layers that are stated, "
            f"{shown(list(stated_layers))}"
        )


def _sliding_window(config: Mapping[str, Any]) -> int | None:
    """The window of the head's one layer. Raises CheckpointError where the fields contradict.

    `layer_types` decides where it is stated; of several, the first entry is the head's, as in vLLM.
    Otherwise a window is in use unless `use_sliding_window` says no, which is the default where
    Qwen's `max_window_layers` stands.
    """
    layer_types, first = read_layer_types(config), config.get("max_window_layers")
    is_stated = config.get("sliding_window") is not None
    if layer_types is not None:
        is_used = layer_types[0] == "sliding_attention"
        if is_used and not is_stated:
            raise CheckpointError(
                "'layer_types' asks for 'sliding_attention', but 'sliding_window' is missing"
            )
    else:
        is_used = is_stated and flag(config, "use_sliding_window", default=first is None)
        if is_used and first not in (None, 0):
            raise CheckpointError(
                f"'use_sliding_window' asks for a window, and 'max_window_layers' {shown(first)} "
                "leaves the head's one layer without it; state 'layer_types'"
            )
    return positive_int(config, "sliding_window") if is_used else None


def _stated_layers(config: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The aux layers in the names in use, as inputs of layers; see _LAYERS_AT_TOP. Raises
    CheckpointError."""
    stated = set()
    for place, offsets in (
        (config, _LAYERS_AT_TOP),
        (mapping(config, "eagle_config"), _LAYERS_IN_EAGLE_CONFIG),
    ):
        for name, offset in offsets.items():
            layers = place.get(name)
            if layers:
                if not isinstance(layers, list) or not all(type(layer) is int for layer in layers):
                    raise CheckpointError(
                        f"{name!r} must be a list of integers, found {shown(layers)}"
                    )
                stated.add(tuple(layer + offset for layer in layers))
    if len(stated) > 1:
        raise CheckpointError(
            "the layers of the target to tap are stated twice, and differently: at the top level "
            "'eagle_aux_hidden_state_layer_ids' and 'aux_hidden_state_layer_ids' count the inputs "
            "of "
            "layers; 'target_layer_ids', and all of them within 'eagle_config', count outputs"
        )
    return stated.pop() if stated else None
