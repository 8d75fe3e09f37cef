"""Owns the random numbers of sampling. They are counter based: a token's noise is a pure function
of (seed, position, token id).

So a request draws the same tokens alone or in a batch, with speculation or without, and there is no
generator state to keep, advance or roll back.
"""

from __future__ import annotations

import torch
from torch import Tensor


def _signed(word: int) -> int:
    """A 64-bit word as int64: torch multiplies and adds int64 modulo 2^64, which is what the hash
    needs."""
    return word - (1 << 64) if word >> 63 else word


_STEP = _signed(0x9E3779B97F4A7C15)
_MIX = (_signed(0xBF58476D1CE4E5B9), _signed(0x94D049BB133111EB))


def splitmix64(state: Tensor) -> Tensor:
    """The output function of SplitMix64 (Steele, Lea and Flood 2014), elementwise: int64 →
    int64."""
    state = _shift_right(state, 30).bitwise_xor_(state).mul_(_MIX[0])
    state = _shift_right(state, 27).bitwise_xor_(state).mul_(_MIX[1])
    return _shift_right(state, 31).bitwise_xor_(state)


def exponential_noise(seed: Tensor, position: Tensor, num_tokens: int) -> Tensor:
    """Independent unit exponentials, one for each row and token id.

    seed, position: int64 [n]
    Returns float32 [n, num_tokens], all in (0, 17]. Small values, which decide a race, have full
    relative precision.
    """
    row = splitmix64(splitmix64(seed) + position * _STEP)
    token = torch.arange(1, num_tokens + 1, device=seed.device) * _STEP
    bits = _shift_right(splitmix64(row[:, None] + token), 11)
    uniform = bits.to(torch.float32).add_(0.5).mul_(2.0**-53).clamp_(max=1 - 2.0**-24)
    return uniform.neg_().log1p_().neg_()


def _shift_right(word: Tensor, count: int) -> Tensor:
    """Logical shift; torch's own shift copies the sign bit."""
    return (word >> count).bitwise_and_((1 << (64 - count)) - 1)
