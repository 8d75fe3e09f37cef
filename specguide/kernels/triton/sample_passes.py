"""Owns the passes of masked_sample over a row: the race of the clocks, and what the filters ask of
the tokens before one.

Tokens are in the order in which they are filtered: by log-weight, greatest first, of equals the
lowest id first.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

import triton
import triton.language as tl

from specguide.kernels.triton.argmax_kernels import row_max
from specguide.kernels.triton.bitmask import load_tile
from specguide.kernels.triton.noise import exponential_noise

_NONE: tl.constexpr = tl.constexpr(2**31 - 1)
_INFINITY_BITS: tl.constexpr = tl.constexpr(0x7F800000)
_PIVOTS: tl.constexpr = tl.constexpr(8)


@triton.jit
def _load_choosable(
    logits,
    bitmask,
    row,
    words_offset,
    is_guided,
    exists,
    start,
    vocab_size,
    logits_stride,
    WORDS: tl.constexpr,
):
    """Logits [1, words, 32] with -inf where a token cannot be chosen, and their columns [1, words,
    32]."""
    values, allowed = load_tile(
        logits,
        bitmask,
        start,
        vocab_size,
        row * logits_stride,
        words_offset,
        is_guided,
        exists,
        WORDS,
    )
    column = start + tl.arange(0, WORDS)[None, :, None] * 32 + tl.arange(0, 32)[None, None, :]
    return tl.where((allowed != 0) & (values == values), values, float("-inf")), column


@triton.jit
def log_weights(values, best, temperature):
    """Log-weights of logits, the greatest 0; of an infinite best, its equals are 0 and all others
    -inf."""
    return tl.where(values == best, 0.0, tl.div_rn(values - best, values * 0 + temperature))


@triton.jit
def race(
    logits,
    bitmask,
    row,
    words_offset,
    is_guided,
    exists,
    first,
    last,
    vocab_size,
    logits_stride,
    best,
    temperature,
    min_p,
    state,
    limit,
    limit_at,
    WORDS: tl.constexpr,
):
    """Over columns first … last - 1, of the kept tokens before (limit, limit_at): best clock, its
    column, the mass.

    Before: of greater log-weight, or of the same and a lower id.
    """
    clock = tl.full((1, WORDS, 32), float("-inf"), tl.float32)
    at = tl.full((1, WORDS, 32), _NONE, tl.int32)
    mass = tl.full((1, WORDS, 32), 0, tl.float64)
    for start in range(first, last, WORDS * 32):
        values, column = _load_choosable(
            logits,
            bitmask,
            row,
            words_offset,
            is_guided,
            exists,
            start,
            vocab_size,
            logits_stride,
            WORDS,
        )
        if tl.max((values > float("-inf")).to(tl.int32)) != 0:
            log_weight = log_weights(values, best, temperature)
            weight = tl.exp(log_weight)
            is_before = (log_weight > limit) | ((log_weight == limit) & (column < limit_at))
            runs = is_before & (values > float("-inf")) & (weight >= min_p)
            speed = tl.where(runs, weight / exponential_noise(state, column), float("-inf"))
            mass += tl.where(runs, weight, 0.0).to(tl.float64)
            is_better = speed > clock
            clock = tl.where(is_better, speed, clock)
            at = tl.where(is_better, column, at)
    fastest, winner = row_max(clock, at)
    return tl.max(fastest, 0), tl.min(winner, 0), tl.sum(tl.sum(tl.sum(mass, 2), 1), 0)


@triton.jit
def rank(
    logits,
    bitmask,
    row,
    words_offset,
    is_guided,
    exists,
    vocab_size,
    logits_stride,
    best,
    temperature,
    min_p,
    limit,
    limit_at,
    WORDS: tl.constexpr,
):
    """Number of kept tokens of greater log-weight than `limit`, and the mass of those before
    (limit, limit_at)."""
    count = tl.full((1, WORDS, 32), 0, tl.int32)
    mass = tl.full((1, WORDS, 32), 0, tl.float64)
    for start in range(0, vocab_size, WORDS * 32):
        values, column = _load_choosable(
            logits,
            bitmask,
            row,
            words_offset,
            is_guided,
            exists,
            start,
            vocab_size,
            logits_stride,
            WORDS,
        )
        log_weight = log_weights(values, best, temperature)
        weight = tl.exp(log_weight)
        is_kept = (values > float("-inf")) & (weight >= min_p)
        count += (is_kept & (log_weight > limit)).to(tl.int32)
        is_before = (log_weight > limit) | ((log_weight == limit) & (column < limit_at))
        mass += tl.where(is_kept & is_before, weight, 0.0).to(tl.float64)
    return tl.sum(tl.sum(tl.sum(count, 2), 1), 0), tl.sum(tl.sum(tl.sum(mass, 2), 1), 0)


@triton.jit
def kth_log_weight(
    logits,
    bitmask,
    row,
    words_offset,
    is_guided,
    exists,
    vocab_size,
    logits_stride,
    best,
    temperature,
    top_k,
    WORDS: tl.constexpr,
):
    """A log-weight that exactly the top_k greatest tokens and all equals of the last of them reach.

    Log-weights are not above 0, so their bits less the sign count upwards from the best. The least
    such number that top_k tokens do not exceed is found between `low` (too few) and `high`
    (enough), _PIVOTS cuts a pass.
    """
    low, high = tl.full((), -1, tl.int32), tl.full((), _INFINITY_BITS, tl.int32)
    cut = tl.arange(0, _PIVOTS)[:, None, None]
    while high - low > 1:
        width = tl.maximum((high - low) // (_PIVOTS + 1), 1)
        pivots = tl.minimum(low + width * (cut + 1), high)
        count = tl.full((_PIVOTS, WORDS, 32), 0, tl.int32)
        for start in range(0, vocab_size, WORDS * 32):
            values, _column = _load_choosable(
                logits,
                bitmask,
                row,
                words_offset,
                is_guided,
                exists,
                start,
                vocab_size,
                logits_stride,
                WORDS,
            )
            size = log_weights(values, best, temperature).to(tl.int32, bitcast=True) & 0x7FFFFFFF
            count += (size <= pivots).to(tl.int32)
        reached = tl.sum(tl.sum(count, 2), 1)[:, None, None]
        is_exact = tl.max((reached == top_k).to(tl.int32)) != 0
        exact = tl.min(tl.where(reached == top_k, pivots, _INFINITY_BITS))
        high = tl.minimum(high, tl.min(tl.where(reached >= top_k, pivots, _INFINITY_BITS)))
        low = tl.maximum(low, tl.max(tl.where(reached < top_k, pivots, -1)))
        if is_exact:
            high, low = exact, exact - 1
    return -high.to(tl.float32, bitcast=True)
