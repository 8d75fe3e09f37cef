"""Owns the passes of masked_sample over a row: the race of the clocks, and the sums over the tokens
before a given one that the filters need.

Tokens are in the order in which they are filtered: by log-weight, greatest first, among equals the
lowest id first. `tokens` is a RowTokens.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

import triton
import triton.language as tl

from specguide.kernels.triton.argmax_kernels import row_max
from specguide.kernels.triton.noise import exponential_noise
from specguide.kernels.triton.sample_tokens import is_before, load_choosable, log_weights

_NONE: tl.constexpr = tl.constexpr(2**31 - 1)
_INFINITY_BITS: tl.constexpr = tl.constexpr(0x7F800000)
_PIVOTS: tl.constexpr = tl.constexpr(8)


@triton.jit
def _total(tile):
    """The sum of a tile [1, words, 32]."""
    return tl.sum(tl.sum(tl.sum(tile, 2), 1), 0)


@triton.jit
def race(tokens, state, first, last, limit, limit_at, WORDS: tl.constexpr):
    """The best clock of the kept tokens before (limit, limit_at) in columns first … last - 1, its
    column, and the mass of these tokens."""
    clock = tl.full((1, WORDS, 32), float("-inf"), tl.float32)
    at = tl.full((1, WORDS, 32), _NONE, tl.int32)
    mass = tl.full((1, WORDS, 32), 0, tl.float64)
    for start in range(first, last, WORDS * 32):
        values, column = load_choosable(tokens, start, WORDS)
        if tl.max((values > float("-inf")).to(tl.int32)) != 0:
            log_weight = log_weights(tokens, values)
            weight = tl.exp(log_weight)
            runs = is_before(log_weight, column, limit, limit_at)
            runs = runs & (values > float("-inf")) & (weight >= tokens.min_p)
            speed = tl.where(runs, weight / exponential_noise(state, column), float("-inf"))
            mass += tl.where(runs, weight, 0.0).to(tl.float64)
            is_better = speed > clock
            clock = tl.where(is_better, speed, clock)
            at = tl.where(is_better, column, at)
    fastest, winner = row_max(clock, at)
    return tl.max(fastest, 0), tl.min(winner, 0), _total(mass)


@triton.jit
def rank(tokens, limit, limit_at, WORDS: tl.constexpr):
    """Number of kept tokens with a greater log-weight than `limit`, and the mass of those before
    (limit, limit_at)."""
    count = tl.full((1, WORDS, 32), 0, tl.int32)
    mass = tl.full((1, WORDS, 32), 0, tl.float64)
    for start in range(0, tokens.rows.vocab_size, WORDS * 32):
        values, column = load_choosable(tokens, start, WORDS)
        log_weight = log_weights(tokens, values)
        weight = tl.exp(log_weight)
        is_kept = (values > float("-inf")) & (weight >= tokens.min_p)
        count += (is_kept & (log_weight > limit)).to(tl.int32)
        counts = is_kept & is_before(log_weight, column, limit, limit_at)
        mass += tl.where(counts, weight, 0.0).to(tl.float64)
    return _total(count), _total(mass)


@triton.jit
def _num_reaching(tokens, pivots, WORDS: tl.constexpr):
    """How many tokens have log-weights whose bits are at most these; pivots and result are [pivots,
    1, 1]."""
    count = tl.full((_PIVOTS, WORDS, 32), 0, tl.int32)
    for start in range(0, tokens.rows.vocab_size, WORDS * 32):
        values, _column = load_choosable(tokens, start, WORDS)
        size = log_weights(tokens, values).to(tl.int32, bitcast=True) & 0x7FFFFFFF
        count += (size <= pivots).to(tl.int32)
    return tl.sum(tl.sum(count, 2), 1)[:, None, None]


@triton.jit
def kth_log_weight(tokens, top_k, WORDS: tl.constexpr):
    """A log-weight that exactly the top_k greatest tokens, and all equals of the last of them,
    reach.

    Log-weights are not above 0, so their bits without the sign count upwards from the best. The
    least such number that at least top_k tokens do not exceed is searched between `low` (too few)
    and `high` (enough), with _PIVOTS cuts per pass.
    """
    low, high = tl.full((), -1, tl.int32), tl.full((), _INFINITY_BITS, tl.int32)
    cut = tl.arange(0, _PIVOTS)[:, None, None]
    while high - low > 1:
        width = tl.maximum((high - low) // (_PIVOTS + 1), 1)
        pivots = tl.minimum(low + width * (cut + 1), high)
        reached = _num_reaching(tokens, pivots, WORDS)
        is_exact = tl.max((reached == top_k).to(tl.int32)) != 0
        exact = tl.min(tl.where(reached == top_k, pivots, _INFINITY_BITS))
        high = tl.minimum(high, tl.min(tl.where(reached >= top_k, pivots, _INFINITY_BITS)))
        low = tl.maximum(low, tl.max(tl.where(reached < top_k, pivots, -1)))
        if is_exact:
            high, low = exact, exact - 1
    return -high.to(tl.float32, bitcast=True)
