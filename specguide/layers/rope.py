"""Owns rotary position embeddings: their configuration, their frequencies, the cached table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from specguide.errors import CheckpointError
from specguide.json_fields import flag, mapping, positive_int, positive_number, shown
from specguide.kernels.rotary_layout import RotaryLayout

ROPE_TYPES = ("default", "linear", "dynamic", "llama3", "yarn", "longrope")

_SHARE = "partial_rotary_factor"

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
    "short_factor",
    "long_factor",
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
    attention_factor: multiplies cosine and sine (yarn, longrope)
    share:            of a head's dimensions that are rotated; 0: the layer knows no positions
    is_interleaved:   see RotaryLayout
    short_factors, long_factors: that divide each pair's frequency, where at most original_len
                      tokens are served, or more (longrope, Ding et al. 2024, arXiv 2402.13753). A
                      model has one of them for all its requests, as vLLM has it: keys stay in the
                      cache as they are
    query_growth:     queries are multiplied by 1 + query_growth · log(1 + ⌊position /
                      original_len⌋), as Llama 4 has it
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
    share: float = 1.0
    is_interleaved: bool = False
    short_factors: tuple[float, ...] = ()
    long_factors: tuple[float, ...] = ()
    query_growth: float = 0.0

    def layout(self, head_dim: int) -> RotaryLayout:
        """Of the heads that it rotates."""
        num_rotated = self.num_rotated(head_dim)
        return RotaryLayout(None if num_rotated == head_dim else num_rotated, self.is_interleaved)

    def num_rotated(self, head_dim: int) -> int:
        """Dimensions of a head that are rotated."""
        return int(head_dim * self.share)

    @classmethod
    def from_hf(
        cls,
        config: Mapping[str, Any],
        max_position_embeddings: int,
        *,
        share: float | None = None,
        is_interleaved: bool = False,
    ) -> RopeConfig:
        """From config.json: `rope_parameters` (transformers 5), or `rope_scaling` beside
        `rope_theta` (before).

        share: that is rotated where config.json does not state `partial_rotary_factor`; None: the
               family rotates all, and another factor is refused

        Raises CheckpointError for a rope type or parameter that is not known, and for one that is
        missing or wrong.
        """
        rope = mapping(config, "rope_scaling") or mapping(config, "rope_parameters")
        rope_type = rope.get("rope_type") or rope.get("type") or "default"
        _check_parameters(rope, rope_type)
        theta = _number(rope, "rope_theta", config.get("rope_theta", 10_000.0))
        if theta <= 1:
            raise CheckpointError(f"rope parameter 'rope_theta' must be more than 1, found {theta}")
        stated: dict[str, Any] = {
            "theta": theta,
            "rope_type": rope_type,
            "share": _share(config, rope, share),
            "is_interleaved": is_interleaved,
        }
        if rope_type in ("default", "dynamic"):
            return cls(**stated)
        if rope_type == "linear":
            return cls(**stated, factor=_number(rope, "factor"))
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
        return cls(**stated, original_len=original_len, **band)


def _share(config: Mapping[str, Any], rope: Mapping[str, Any], default: float | None) -> float:
    """`partial_rotary_factor`. Raises CheckpointError where the family has none (default: None)."""
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


def inverse_frequencies(rope: RopeConfig, num_rotated: int, max_positions: int) -> Tensor:
    """Radians per position of each pair of dimensions, float32 [num_rotated / 2] (Su et al. 2021,
    and its extensions). max_positions: that are served"""
    exponents = torch.arange(0, num_rotated, 2, dtype=torch.float32) / max(num_rotated, 1)
    frequencies = 1.0 / (rope.theta**exponents)
    if rope.rope_type == "linear":
        return frequencies / rope.factor
    if rope.rope_type == "longrope":
        is_long = max_positions > rope.original_len
        factors = rope.long_factors if is_long else rope.short_factors
        _check_factors(factors, "long_factor" if is_long else "short_factor", len(frequencies))
        return frequencies / torch.tensor(factors)
    if rope.rope_type == "llama3":
        # Slow waves are stretched, fast ones kept, those between blended by how many fit in the
        # original context.
        waves = rope.original_len * frequencies / (2 * math.pi)
        keep = (
            (waves - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
        ).clamp_(0.0, 1.0)
        return frequencies * keep + frequencies / rope.factor * (1.0 - keep)
    if rope.rope_type == "yarn":
        keep = 1.0 - _yarn_ramp(rope, num_rotated)
        return frequencies * keep + frequencies / rope.factor * (1.0 - keep)
    return frequencies


def _check_factors(factors: tuple[float, ...], name: str, num_pairs: int) -> None:
    if len(factors) != num_pairs:
        raise CheckpointError(
            f"rope parameter {name!r} must have {num_pairs} numbers, found {len(factors)}"
        )


@dataclass(frozen=True)
class TableSize:
    """num_positions: rows;  max_positions: those of them that are served"""

    head_dim: int
    num_positions: int
    max_positions: int


def rope_table(
    rope: RopeConfig, size: TableSize, *, device: torch.device, dtype: torch.dtype
) -> Tensor:
    """Cosine and signed sine of each position, [num_positions, 2, 1, head_dim].

    The sine's first half is negative, so that the rotation needs no negation of its own. Pairs of
    dimensions that are not rotated come last.
    """
    num_rotated = rope.num_rotated(size.head_dim)
    positions = torch.arange(size.num_positions, dtype=torch.float32)
    angles = positions[:, None] * inverse_frequencies(rope, num_rotated, size.max_positions)
    num_still = (size.head_dim - num_rotated) // 2
    cos = F.pad(angles.cos() * rope.attention_factor, (0, num_still), value=1.0)
    sin = F.pad(angles.sin() * rope.attention_factor, (0, num_still))
    table = torch.stack((torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)), dim=1)
    return table.unsqueeze(2).to(device=device, dtype=dtype)


def query_scales(rope: RopeConfig, position_ids: Tensor, dtype: torch.dtype) -> Tensor | None:
    """What queries at these positions, int64 [T], are multiplied by, [T, 1, 1]; None: nothing."""
    if not rope.query_growth:
        return None
    growth = torch.log1p(torch.floor(position_ids / rope.original_len))
    return (1 + rope.query_growth * growth).to(dtype)[:, None, None]


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


def _check_parameters(rope: Mapping[str, Any], rope_type: Any) -> None:
    """Raise CheckpointError for what is not implemented; every parameter of rope changes the
    arithmetic."""
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
