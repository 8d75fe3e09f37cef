"""Owns rotary position embeddings: their configuration, their frequencies and the table of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from specguide.errors import CheckpointError
from specguide.kernels.rotary_layout import RotaryLayout
from specguide.layers.rope_parameters import rope_parameters


@dataclass(frozen=True)
class RopeConfig:
    """Rotary embeddings as a Hugging Face configuration states them.

    theta:            base of the frequencies
    rope_type:        one of ROPE_TYPES. "dynamic" is exact up to the model's
                      max_position_embeddings, where it equals "default"; the rotary table ends
                      there. "proportional": all dimensions rotate, those beyond `share` by 0, and
                      the frequencies are those of a whole head (Gemma 4)
    factor:           context extension, for linear, llama3, yarn and proportional
    original_len:     context of the pre-training, tokens, for llama3 and yarn
    low_freq_factor, high_freq_factor: llama3's band
    beta_fast, beta_slow, truncate: yarn's band, rotations; truncate rounds it to whole dimensions
    attention_factor: multiplies cosine and sine (yarn, longrope)
    share:            part of a head's dimensions that is rotated; 0: the layer has no positions
                      (NoPE)
    is_interleaved:   see RotaryLayout
    short_factors, long_factors: factors that divide each pair's frequency: short if the model
                                 serves at most original_len tokens, else long (longrope, Ding et
                                 al. 2024, arXiv 2402.13753). A model uses one of them for all
                                 requests, as in vLLM, because cached keys are not rotated again
    query_growth:     queries are multiplied by 1 + query_growth · log(1 + ⌊position /
                      original_len⌋), as in Llama 4
    sections:         of how many pairs of dimensions each position in time, height and width
                      rotates; empty: all have one position (Qwen2-VL, arXiv 2409.12191)
    has_mixed_sections: pairs of the three alternate, as in Qwen3-VL; else each section is in one
                      piece
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
    sections: tuple[int, ...] = ()
    has_mixed_sections: bool = False

    def layout(self, head_dim: int) -> RotaryLayout:
        """The layout of the heads that it rotates."""
        num_rotated = self.num_rotated(head_dim)
        return RotaryLayout(None if num_rotated == head_dim else num_rotated, self.is_interleaved)

    def num_rotated(self, head_dim: int) -> int:
        """Number of a head's dimensions that are rotated."""
        return head_dim if self.rope_type == "proportional" else int(head_dim * self.share)

    @classmethod
    def from_hf(
        cls,
        config: Mapping[str, Any],
        max_position_embeddings: int,
        *,
        share: float | None = None,
        is_interleaved: bool = False,
    ) -> RopeConfig:
        """The rope that config.json states: `rope_parameters` (transformers 5), or `rope_scaling`
        and `rope_theta` (before).

        share: part of the dimensions that is rotated if config.json does not state
               `partial_rotary_factor`; None: the family rotates all, and any other value is refused

        Raises CheckpointError for an unknown rope type or parameter, and for a missing or invalid
        one.
        """
        stated = rope_parameters(config, max_position_embeddings, share)
        return cls(**stated, is_interleaved=is_interleaved)


def inverse_frequencies(rope: RopeConfig, num_rotated: int, max_positions: int) -> Tensor:
    """Radians per position of each pair of dimensions, float32 [num_rotated / 2] (Su et al. 2021,
    and its extensions). max_positions: number of positions that are served"""
    exponents = torch.arange(0, num_rotated, 2, dtype=torch.float32) / max(num_rotated, 1)
    frequencies = 1.0 / (rope.theta**exponents)
    if not num_rotated:  # a layer without positions, whatever the other layers have
        return frequencies
    if rope.rope_type == "proportional":
        frequencies[int(rope.share * num_rotated // 2) :] = 0.0
    if rope.rope_type in ("linear", "proportional"):
        return frequencies / rope.factor
    if rope.rope_type == "longrope":
        is_long = max_positions > rope.original_len
        factors = rope.long_factors if is_long else rope.short_factors
        _check_factors(factors, "long_factor" if is_long else "short_factor", len(frequencies))
        return frequencies / torch.tensor(factors)
    if rope.rope_type == "llama3":
        # Low frequencies are stretched and high ones kept; those between are blended by how many of
        # their waves fit in the original context.
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


def axis_of_dims(rope: RopeConfig, head_dim: int) -> Tensor:
    """Which of time, height and width (0, 1, 2) rotates each dimension, int64 [head_dim]. Raises
    CheckpointError where the sections are not those of the pairs that rotate."""
    num_pairs = rope.num_rotated(head_dim) // 2
    in_pieces = rope.sections if not rope.has_mixed_sections else ()
    if in_pieces and sum(in_pieces) != num_pairs:
        raise CheckpointError(
            f"rope parameter 'mrope_section' {list(rope.sections)} must add up to {num_pairs}, the "
            "pairs of dimensions that rotate"
        )
    axis = torch.zeros(head_dim // 2, dtype=torch.int64)
    first = 0
    for index, count in enumerate(rope.sections):
        if not rope.has_mixed_sections:
            axis[first : first + count] = index
        elif index:
            axis[index : 3 * count : 3] = index
        first += count
    return axis.tile(2)


@dataclass(frozen=True)
class TableSize:
    """The size of a rotary table. num_positions: its rows; max_positions: how many of them are
    served"""

    head_dim: int
    num_positions: int
    max_positions: int


def rope_table(
    rope: RopeConfig, size: TableSize, *, device: torch.device, dtype: torch.dtype
) -> Tensor:
    """Cosine and signed sine of each position, [num_positions, 2, 1, head_dim].

    The first half of the sines is negative, so that the rotation needs no negation. Pairs of
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
    """Factors [T, 1, 1] on queries at these positions, int64 [T]; None: no factors."""
    if not rope.query_growth:
        return None
    growth = torch.log1p(torch.floor(position_ids / rope.original_len))
    return (1 + rope.query_growth * growth).to(dtype)[:, None, None]


def _yarn_ramp(rope: RopeConfig, head_dim: int) -> Tensor:
    """0 for the pairs that yarn keeps, 1 for those it stretches, linear in between (Peng et al.
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
