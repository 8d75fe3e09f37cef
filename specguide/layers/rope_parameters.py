"""Owns the reading of rotary position embeddings from config.json."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from specguide.errors import CheckpointError
from specguide.inputs.json_fields import flag, mapping, positive_int, positive_number, shown

ROPE_TYPES = ("default", "linear", "dynamic", "llama3", "yarn", "longrope", "proportional")

_SHARE = "partial_rotary_factor"

# "finetuned" only says how the model was made.
_PARAMETERS = (
    "rope_type",
    "type",
    "rope_theta",
    "factor",
    "original_max_position_embeddings",
    "low_freq_factor",
    "high_freq_factor",
    "beta_fast",
    "beta_slow",
    "truncate",
    "attention_factor",
    "mscale",
    "mscale_all_dim",
    "partial_rotary_factor",
    "short_factor",
    "long_factor",
    "finetuned",
    "mrope_section",
    "mrope_interleaved",
)


def rope_parameters(
    config: Mapping[str, Any], max_position_embeddings: int, share: float | None
) -> dict[str, Any]:
    """The fields of RopeConfig except `is_interleaved`; see `RopeConfig.from_hf`. Raises
    CheckpointError."""
    rope = mapping(config, "rope_scaling") or mapping(config, "rope_parameters")
    rope_type = rope.get("rope_type") or rope.get("type") or "default"
    rope_type = "default" if rope_type == "mrope" else rope_type
    _check_parameters(rope, rope_type)
    theta = _number(rope, "rope_theta", config.get("rope_theta", 10_000.0))
    if theta <= 1:
        raise CheckpointError(f"rope parameter 'rope_theta' must be more than 1, found {theta}")
    share = 1.0 if rope_type == "proportional" else share
    stated = {
        "theta": theta,
        "rope_type": rope_type,
        "share": _share(config, rope, share),
        "sections": _sections(rope),
        "has_mixed_sections": flag(rope, "mrope_interleaved", False),
    }
    if rope_type in ("default", "dynamic"):
        return stated
    if rope_type == "linear":
        return {**stated, "factor": _number(rope, "factor")}
    if rope_type == "proportional":
        return {**stated, "factor": _number(rope, "factor", 1.0)}
    original_len = positive_int(
        config,
        "original_max_position_embeddings",
        positive_int(rope, "original_max_position_embeddings", max_position_embeddings),
    )
    extension = max_position_embeddings / original_len
    if rope_type == "llama3":
        band = _llama3_band(rope)
    elif rope_type == "yarn":
        band = _yarn_band(rope, extension)
    else:
        band = _long_factors(rope, extension, original_len)
    return {**stated, "original_len": original_len, **band}


def _share(config: Mapping[str, Any], rope: Mapping[str, Any], default: float | None) -> float:
    """The stated `partial_rotary_factor`. Raises CheckpointError if the family has no such factor
    (default: None)."""
    stated = rope.get("partial_rotary_factor", config.get("partial_rotary_factor"))
    if default is None:
        if stated not in (None, 1):
            raise CheckpointError(
                f"partial_rotary_factor {shown(stated)} is not supported: only 1.0 is"
            )
        return 1.0
    share = default if stated is None else _number({"partial_rotary_factor": stated}, _SHARE)
    if share > 1:
        raise CheckpointError(f"{_SHARE!r} must be at most 1, found {share}")
    return share


def _sections(rope: Mapping[str, Any]) -> tuple[int, ...]:
    stated = rope.get("mrope_section") or []
    is_list = isinstance(stated, list) and all(type(count) is int for count in stated)
    if not is_list or len(stated) not in (0, 3) or any(count < 0 for count in stated):
        raise CheckpointError(
            f"rope parameter 'mrope_section' must be three numbers, found {shown(stated)}"
        )
    return tuple(stated)


def _long_factors(rope: Mapping[str, Any], extension: float, original_len: int) -> dict[str, Any]:
    factor = _number(rope, "factor", extension)
    growth = math.log(factor) / math.log(original_len) if factor > 1 and original_len > 1 else 0.0
    return {
        "factor": factor,
        "short_factors": _factors(rope, "short_factor"),
        "long_factors": _factors(rope, "long_factor"),
        "attention_factor": _number(rope, "attention_factor", math.sqrt(1 + growth)),
    }


def _factors(rope: Mapping[str, Any], name: str) -> tuple[float, ...]:
    stated = rope.get(name)
    if not isinstance(stated, list) or not stated:
        raise CheckpointError(f"rope parameter {name!r} must be a list, found {shown(stated)}")
    return tuple(_number({name: value}, name) for value in stated)


def _llama3_band(rope: Mapping[str, Any]) -> dict[str, Any]:
    low = _number(rope, "low_freq_factor")
    high = _number(rope, "high_freq_factor")
    if low >= high:
        raise CheckpointError(
            f"rope parameter 'high_freq_factor' {high} must be more than 'low_freq_factor' {low}"
        )
    return {
        "factor": _number(rope, "factor"),
        "low_freq_factor": low,
        "high_freq_factor": high,
    }


def _yarn_band(rope: Mapping[str, Any], default_factor: float) -> dict[str, Any]:
    factor = _number(rope, "factor", default_factor)
    return {
        "factor": factor,
        "beta_fast": _number(rope, "beta_fast", 32.0),
        "beta_slow": _number(rope, "beta_slow", 1.0),
        "truncate": flag(rope, "truncate", True),
        "attention_factor": _yarn_attention_factor(rope, factor),
    }


def _yarn_attention_factor(rope: Mapping[str, Any], factor: float) -> float:
    """The stated factor, or the one that yarn derives from the extension (with DeepSeek's two
    mscales if given)."""
    if rope.get("attention_factor") is not None:
        return _number(rope, "attention_factor")
    if rope.get("mscale") and rope.get("mscale_all_dim"):
        weights = _number(rope, "mscale"), _number(rope, "mscale_all_dim")
        return yarn_mscale(factor, weights[0]) / yarn_mscale(factor, weights[1])
    return yarn_mscale(factor, 1.0)


def yarn_mscale(factor: float, weight: float) -> float:
    """The factor on attention that YaRN derives from an extension of the context (Peng et al. 2023,
    arXiv 2309.00071), with DeepSeek's weight."""
    return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0


def _check_parameters(rope: Mapping[str, Any], rope_type: Any) -> None:
    """Raise CheckpointError for parameters that are not implemented: none can be ignored, because
    every parameter of rope changes the result."""
    if any(isinstance(value, dict) for value in rope.values()):
        raise CheckpointError("rope parameters per layer type are not supported")
    if rope_type not in ROPE_TYPES:
        raise CheckpointError(
            f"rope type {shown(rope_type)} is not supported; known: {', '.join(ROPE_TYPES)}"
        )
    unknown = [
        name
        for name, value in rope.items()
        if name not in _PARAMETERS and value not in (None, False)
    ]
    if unknown:
        raise CheckpointError(
            f"rope parameter {shown(unknown[0])} {shown(rope[unknown[0]])} is not supported"
        )


def _number(rope: Mapping[str, Any], name: str, default: Any = None) -> float:
    try:
        return positive_number(rope, name, default)
    except CheckpointError as error:
        raise CheckpointError(f"rope parameter {error}") from None
