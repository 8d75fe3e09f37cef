"""Owns the noise of sampling inside Triton kernels: the hash of noise.py, bit for bit."""

# mypy: allow-untyped-defs

from __future__ import annotations

import triton
import triton.language as tl

_STEP: tl.constexpr = tl.constexpr(0x9E3779B97F4A7C15)
_MIX_1: tl.constexpr = tl.constexpr(0xBF58476D1CE4E5B9)
_MIX_2: tl.constexpr = tl.constexpr(0x94D049BB133111EB)


@triton.jit
def splitmix64(state):
    """The same as noise.splitmix64: uint64 → uint64."""
    state = (state ^ (state >> 30)) * _MIX_1
    state = (state ^ (state >> 27)) * _MIX_2
    return state ^ (state >> 31)


@triton.jit
def row_state(seed, position):
    """The state that a row's noise starts from: int64 → uint64."""
    return splitmix64(
        splitmix64(seed.to(tl.uint64, bitcast=True)) + position.to(tl.uint64, bitcast=True) * _STEP
    )


@triton.jit
def exponential_noise(state, token):
    """Unit exponentials of a row's tokens, float32, the same as those of noise.exponential_noise.
    token: int32"""
    bits = splitmix64(state + (token + 1).to(tl.uint64) * _STEP) >> 11
    uniform = (bits.to(tl.int64, bitcast=True).to(tl.float32) + 0.5) * (2.0**-53)
    uniform = tl.minimum(uniform, 1 - 2.0**-24)
    # log1p(-u): the logarithm of the rounded 1 - u, corrected for what the rounding of u lost
    # (Kahan).
    rest = 1.0 - uniform
    rounded = tl.where(rest == 1.0, 1.0, 1.0 - rest)
    return tl.where(rest == 1.0, uniform, -tl.log(rest) * (uniform / rounded))
