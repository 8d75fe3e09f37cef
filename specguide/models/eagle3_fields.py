"""Owns which fields the config.json of an EAGLE-3 head may have, and where they may be stated."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import flag, mapping, positive_int, shown
from specguide.models.config_fields import check_neutral
from specguide.models.eagle3_parts import Eagle3Parts
from specguide.models.windows import read_layer_types

# Variants of the head that compute something else. Each must be absent or one of these values.
NEUTRAL: dict[str, Collection[Any]] = {
    "use_aux_hidden_state": (None, True),
    "use_input_layernorm_in_first_layer": (None, True),
    "use_mtp_layernorm": (None, False),
    "parallel_draft_step": (None, 1),
    "bias": (None, False),
    "decoder_sparse_step": (None, 1),  # for its target's experts
}

_KIND = "speculators_model_type"
_PARALLEL = "peagle"
_KINDS = (None, "eagle3", _PARALLEL)
_OTHER_HEADS = re.compile("dflash|dspark|domino|medusa|hydra|mlpspeculator|xpress", re.IGNORECASE)

MASK_TOKENS = ("pard_token", "ptd_token_id", "mask_token_id")

# Fields besides those of a dense decoder; the second half says where a head comes from, and how it
# was trained.
KNOWN = frozenset(
    (
        *NEUTRAL,
        *MASK_TOKENS,
        _KIND,
        "eagle_aux_hidden_state_layer_ids",
        "aux_hidden_state_layer_ids",
        "target_layer_ids",
        "num_aux_hidden_states",
        "draft_vocab_size",
        "target_hidden_size",
        "norm_before_residual",
        "norm_before_fc",
        "fc_norm",
        "norm_output",
        "use_last_layernorm",
        "parallel_drafting",
        "parallel_draft_heads_num_layers",
        "eagle_config",
        "transformer_layer_config",
        "next_layer_regular",
        "has_lm_head",
        "has_embed_tokens",
        "embed_requires_grad",
        "has_no_defaults_at_init",
        "modal_type",
        "speculators_config",
        "speculators_version",
        "target_model_type",
        "target_layer_count",
        "num_depths",
        "down_sample_ratio",
        "down_sample_ratio_min",
    )
)

_OF_SPECULATORS = frozenset(
    ("algorithm", "default_proposal_method", "proposal_methods", "verifier")
)
"""Fields that `speculators_config` may have: they are that library's defaults for serving a
head."""

# The target's layers in `eagle_config` are read in their own place.
_LAYERS = frozenset(
    ("eagle_aux_hidden_state_layer_ids", "aux_hidden_state_layer_ids", "target_layer_ids")
)


def flat(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config.json flattened to one level: with the layer's settings that `speculators` nests, and
    the fields of `eagle_config` other than the target's layers. Raises CheckpointError."""
    nested = mapping(config, "transformer_layer_config")
    if nested and "norm_before_residual" not in config:
        raise CheckpointError(
            "'norm_before_residual' is missing, and its default has changed between versions of "
            "this format; set it in config.json"
        )
    eagle_config = {
        name: value
        for name, value in mapping(config, "eagle_config").items()
        if name not in _LAYERS
    }
    return {
        **nested,
        **{name: value for name, value in config.items() if value is not None},
        **eagle_config,
    }


def check_kind(config: Mapping[str, Any]) -> None:
    """Raise CheckpointError for another kind of drafter, and name that kind."""
    check_neutral(config, {_KIND: _KINDS})
    served = mapping(config, "speculators_config")
    check_neutral(served, {"algorithm": _KINDS})
    if unknown := sorted(served.keys() - _OF_SPECULATORS):
        raise CheckpointError(f"{shown(unknown[0])} within 'speculators_config' is unknown")
    architectures = config.get("architectures") or ()
    for name in architectures if isinstance(architectures, list) else ():
        if _OTHER_HEADS.search(str(name)):
            raise CheckpointError(
                f"'architectures' {shown(name)} is not supported as a draft head; supported: "
                "EAGLE-3, P-EAGLE and MTP"
            )


def check_variant(config: Mapping[str, Any], parts: Eagle3Parts) -> None:
    """Raise CheckpointError if a flattened config asks for what is not implemented, or contradicts
    the tensors."""
    biased = {"bias": (None, False, True)} if parts.fc_bias else {}
    check_neutral(config, {**NEUTRAL, **biased})
    if flag(config, "fc_norm") and flag(config, "norm_before_fc"):
        raise CheckpointError("'fc_norm' and 'norm_before_fc' cannot both be true")
    nested = mapping(config, "transformer_layer_config")
    stated = positive_int(nested, "num_hidden_layers", parts.num_layers)
    if stated != parts.num_layers:
        raise CheckpointError(
            f"'num_hidden_layers' within 'transformer_layer_config' is {stated}, but there are "
            f"tensors of {parts.num_layers} layers"
        )
    if nested.get("model_type") == "qwen3" and not parts.qk_norm:
        raise CheckpointError("missing weights: midlayer.self_attn.q_norm.weight")


def mask_token(config: Mapping[str, Any], parts: Eagle3Parts, vocab_size: int) -> int | None:
    """The id that a P-EAGLE head reads in place of an unknown token; None for other heads. Raises
    CheckpointError if it is missing or outside the vocabulary."""
    is_parallel = config.get(_KIND) == _PARALLEL or flag(config, "parallel_drafting")
    if not parts.mask_hidden:
        if is_parallel:
            raise CheckpointError("missing weights: mask_hidden, which a P-EAGLE head has")
        return None
    stated = [config[name] for name in MASK_TOKENS if config.get(name) is not None]
    if not stated:
        raise CheckpointError(
            "'mask_token_id' is missing: a P-EAGLE head needs it in place of tokens that are not "
            "known yet"
        )
    if type(stated[0]) is not int or not 0 <= stated[0] < vocab_size:
        raise CheckpointError(
            f"'mask_token_id' must be a token id below {vocab_size}, found {shown(stated[0])}"
        )
    return int(stated[0])


def sliding_windows(config: Mapping[str, Any], num_layers: int) -> tuple[int | None, ...]:
    """The window of each of the head's layers. Raises CheckpointError if the fields contradict each
    other.

    If `layer_types` is stated it decides; if it is too long, its first entries are the head's, as
    in vLLM. Otherwise a window is used unless `use_sliding_window` is false, which is its default
    if Qwen's `max_window_layers` is present.
    """
    layer_types = read_layer_types(config)
    first = config.get("max_window_layers")
    is_stated = config.get("sliding_window") is not None
    if layer_types is not None:
        return _typed_windows(config, layer_types, num_layers)
    is_used = is_stated and flag(config, "use_sliding_window", default=first is None)
    if is_used and first not in (None, 0):
        raise CheckpointError(
            f"'use_sliding_window' is true, but 'max_window_layers' {shown(first)} leaves the "
            "head's first layer without a window; set 'layer_types' to say which layers have one"
        )
    return (positive_int(config, "sliding_window") if is_used else None,) * num_layers


def _typed_windows(
    config: Mapping[str, Any], layer_types: list[str], num_layers: int
) -> tuple[int | None, ...]:
    if len(layer_types) < num_layers:
        raise CheckpointError(
            f"'layer_types' must have one entry for each of the {num_layers} layers, found "
            f"{shown(layer_types)}"
        )
    are_used = [kind == "sliding_attention" for kind in layer_types[:num_layers]]
    if any(are_used) and config.get("sliding_window") is None:
        raise CheckpointError(
            "'layer_types' asks for 'sliding_attention', but 'sliding_window' is missing"
        )
    return tuple(positive_int(config, "sliding_window") if used else None for used in are_used)
