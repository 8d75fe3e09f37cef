"""Owns rotary position embeddings: their configuration, their frequencies, the cached table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from specguide.errors import CheckpointError
from specguide.json_fields import flag, mapping, positive_int, positive_number, shown

ROPE_TYPES = ("default", "linear", "dynamic", "llama3", "yarn")

# "finetuned" tells how a model came to be.
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
    "finetuned",
)


@dataclass(frozen=True)
class RopeConfig:
    """Rotary embeddings as a Hugging Face configuration states them.

    theta:            base of the frequencies
    rope_type:        one of ROPE_TYPES. "dynamic" is exact up to the model's
                      max_position_embeddings, where it equals "default"; the rotary table ends
                      there
    factor:           context extension, for linear, llama3 and yarn
    original_len:     context of the pre-training, tokens, for llama3 and yarn
    low_freq_factor, high_freq_factor:  llama3's band
    beta_fast, beta_slow, truncate:     yarn's band, rotations; truncate rounds it to whole
                                        dimensions
    attention_factor: multiplies cosine and sine (yarn)
    """

    theta: float = 10_000.0
    rope_type: str = "default"
    factor: float = 1.0
    original_len: int = 0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    attention_factor: float = 1.0

    @classmethod
    def from_hf(cls, config: Mapping[str, Any], max_position_embeddings: int) -> RopeConfig:
        """From config.json: `rope_parameters` (transformers 5), or `rope_scaling` beside
        `rope_theta` (before).

        Raises CheckpointError for a rope type or parameter that is not known, and for one that is
        missing or wrong.
        """
        rope = mapping(config, "rope_scaling") or mapping(config, "rope_parameters")
        rope_type = rope.get("rope_type") or rope.get("type") or "default"
        _check_parameters(config, rope, rope_type)
        theta = _number(rope, "rope_theta", config.get("rope_theta", 10_000.0))
        if theta <= 1:
            raise CheckpointError(f"rope parameter 'rope_theta' must be more than 1, found {theta}")
        if rope_type in ("default", "dynamic"):
            return cls(theta=theta, rope_type=rope_type)
        if rope_type == "linear":
            return cls(theta=theta, rope_type=rope_type, factor=_number(rope, "factor"))
        original_len = positive_int(
            config,
            "original_max_position_embeddings",
            positive_int(rope, "original_max_position_embeddings", max_position_embeddings),
        )
        band = (
            _llama3_band(rope)
            if rope_type == "llama3"
            else _yarn_band(rope, max_position_embeddings / original_len)
        )
        return cls(theta=theta, rope_type=rope_type, original_len=original_len, **band)


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


def inverse_frequencies(rope: RopeConfig, head_dim: int) -> Tensor:
    """Radians per position of each pair of dimensions, float32 [head_dim / 2] (Su et al. 2021, and
    its extensions)."""
    frequencies = 1.0 / (
        rope.theta ** (torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    )
    if rope.rope_type == "linear":
        return frequencies / rope.factor
    if rope.rope_type == "llama3":
        # Slow waves are stretched, fast ones kept, those between blended by how many fit in the
        # original context.
        waves = rope.original_len * frequencies / (2 * math.pi)
        keep = (
            (waves - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
        ).clamp_(0.0, 1.0)
        return frequencies * keep + frequencies / rope.factor * (1.0 - keep)
    if rope.rope_type == "yarn":
        keep = 1.0 - _yarn_ramp(rope, head_dim)
        return frequencies * keep + frequencies / rope.factor * (1.0 - keep)
    return frequencies


def rope_table(
    rope: RopeConfig, head_dim: int, num_positions: int, *, device: torch.device, dtype: torch.dtype
) -> Tensor:
    """Cosine and signed sine of each position, [num_positions, 2, 1, head_dim].

    The sine's first half is negative, so that the rotation needs no negation of its own.
    """
    positions = torch.arange(num_positions, dtype=torch.float32)
    angles = positions[:, None] * inverse_frequencies(rope, head_dim)
    cos, sin = angles.cos() * rope.attention_factor, angles.sin() * rope.attention_factor
    table = torch.stack((torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)), dim=1)
    return table.unsqueeze(2).to(device=device, dtype=dtype)


def _yarn_ramp(rope: RopeConfig, head_dim: int) -> Tensor:
    """0 for the pairs that yarn keeps, 1 for those it stretches, linear between (Peng et al.
    2023)."""

    def dimension(rotations: float) -> float:
        return (
            head_dim
            * math.log(rope.original_len / (rotations * 2 * math.pi))
            / (2 * math.log(rope.theta))
        )

    low, high = dimension(rope.beta_fast), dimension(rope.beta_slow)
    if rope.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    width = high - low or 0.001
    return ((torch.arange(head_dim // 2, dtype=torch.float32) - low) / width).clamp_(0.0, 1.0)


def _yarn_attention_factor(rope: Mapping[str, Any], factor: float) -> float:
    """The stated factor, or the one that yarn derives from the extension (with DeepSeek's two
    mscales if given)."""

    def mscale(weight: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    if rope.get("attention_factor") is not None:
        return _number(rope, "attention_factor")
    if rope.get("mscale") and rope.get("mscale_all_dim"):
        return mscale(_number(rope, "mscale")) / mscale(_number(rope, "mscale_all_dim"))
    return mscale(1.0)


def _check_parameters(config: Mapping[str, Any], rope: Mapping[str, Any], rope_type: Any) -> None:
    """Raise CheckpointError for what is not implemented; every parameter of rope changes the
    arithmetic."""
    if any(isinstance(value, dict) for value in rope.values()):
        raise CheckpointError("rope parameters per layer type are not supported")
    if rope_type not in ROPE_TYPES:
        raise CheckpointError(
            f"rope type {shown(rope_type)} is not supported; known: {', '.join(ROPE_TYPES)}"
        )
    partial = rope.get("partial_rotary_factor", config.get("partial_rotary_factor"))
    if partial not in (None, 1):
        raise CheckpointError(
            f"partial_rotary_factor {shown(partial)} is not supported: only 1.0 is"
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
