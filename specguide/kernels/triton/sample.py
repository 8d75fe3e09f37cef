"""Owns the Triton masked_sample: three launches, no sort.

The first finds each row's best token, as masked_argmax does; a greedy row outputs it. The second
runs the race of exponential clocks over all allowed tokens. The third checks whether top-k and
top-p keep the winner. If not, they drop every token behind it in their order, too; so the race is
run again over the tokens before it, until its winner is kept. That winner has won the race among
the kept tokens. The filters only need the mass and the number of tokens before a winner, which are
sums over one pass.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from specguide.kernels.bitmask_rows import BitmaskRows
from specguide.kernels.sampling_tensors import GREEDY_TEMPERATURE, SamplingTensors
from specguide.kernels.triton.argmax import (
    MOST_SPLITS,
    choose_launch,
    launch_argmax,
    masked_argmax,
)
from specguide.kernels.triton.argmax_kernels import Parts
from specguide.kernels.triton.bitmask import RowArguments
from specguide.kernels.triton.noise import row_state
from specguide.kernels.triton.sample_passes import kth_log_weight, race, rank
from specguide.kernels.triton.sample_tokens import Logits, RowTokens, find_row, log_weights

_GREEDY: tl.constexpr = tl.constexpr(GREEDY_TEMPERATURE)
_NONE: tl.constexpr = tl.constexpr(2**31 - 1)


@triton.jit
def _load_best(bests, ats, row, num_splits, BLOCK: tl.constexpr):
    """The greatest part of a row and its index; both scalars."""
    split = tl.arange(0, BLOCK)
    best = tl.load(bests + row * num_splits + split, mask=split < num_splits, other=float("-inf"))
    at = tl.load(ats + row * num_splits + split, mask=split < num_splits, other=_NONE)
    greatest = tl.max(best, 0)
    return greatest, tl.min(tl.where(best == greatest, at, _NONE), 0)


@triton.jit
def _load_sum(parts, row, num_splits, BLOCK: tl.constexpr):
    """The sum of a row's parts."""
    split = tl.arange(0, BLOCK)
    return tl.sum(tl.load(parts + row * num_splits + split, mask=split < num_splits, other=0), 0)


@triton.jit
def _load_or(values, row, neutral):
    """A row's parameter, or the neutral value if no row asks for it."""
    value = neutral
    if values is not None:
        value = tl.load(values + row)
    return value


class _Draws(NamedTuple):
    """Pointers to the parameters by which rows are sampled; min_ps may be None."""

    temperatures: Any
    min_ps: Any
    seeds: Any
    positions: Any


class _Race(NamedTuple):
    """What each split of a race found, [n, num_splits]: the fastest clock, float32, its column,
    int32, and the mass, float64."""

    clocks: Any
    winners: Any
    masses: Any


@triton.jit
def _state_of(draws, row):
    """The state of a row's noise."""
    return row_state(tl.load(draws.seeds + row), tl.load(draws.positions + row))


@triton.jit(do_not_specialize=["num_rows", "num_splits"])
def _race_kernel(
    logits,
    masks,
    parts,
    draws,
    found,
    num_rows,
    vocab_size,
    logits_stride,
    num_splits,
    share,
    WORDS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Run the race of one row over `share` columns."""
    row = tl.program_id(0).to(tl.int64)
    split = tl.program_id(1)
    temperature = tl.load(draws.temperatures + row)
    if temperature >= _GREEDY:
        best, _at = _load_best(parts.best, parts.at, row, num_splits, BLOCK)
        rows = Logits(logits, logits_stride, num_rows, vocab_size)
        min_p = _load_or(draws.min_ps, row, 0.0)
        place = find_row(rows, masks, row)
        tokens = RowTokens(rows, masks, place, best, temperature, min_p)
        state = _state_of(draws, row)
        last = tl.minimum((split + 1) * share, vocab_size)
        clock, winner, mass = race(tokens, state, split * share, last, float("-inf"), _NONE, WORDS)
        tl.store(found.clocks + row * num_splits + split, clock)
        tl.store(found.winners + row * num_splits + split, winner)
        tl.store(found.masses + row * num_splits + split, mass)


@triton.jit
def _settle(tokens, state, token, mass, top_k, top_p, WORDS: tl.constexpr):
    """The race's winner among the tokens that top-k and top-p keep.

    token: the winner among all tokens
    mass:  mass of all tokens
    """
    if (top_k > 0) & (top_p < 1):
        _count, mass = rank(tokens, kth_log_weight(tokens, top_k, WORDS), _NONE, WORDS)
    is_kept = False
    while not is_kept:
        value = tl.load(tokens.rows.logits + tokens.place.logits + token).to(tl.float32)
        limit = log_weights(tokens, value)
        num_greater, mass_before = rank(tokens, limit, token, WORDS)
        is_kept = ((top_k <= 0) | (num_greater < top_k)) & (
            (top_p >= 1) | (mass_before < top_p * mass)
        )
        if not is_kept:
            _clock, token, _mass = race(
                tokens, state, 0, tokens.rows.vocab_size, limit, token, WORDS
            )
    return token


@triton.jit(do_not_specialize=["num_rows", "num_splits"])
def _settle_kernel(
    logits,
    masks,
    parts,
    draws,
    top_ks,
    top_ps,
    found,
    output,
    num_rows,
    vocab_size,
    logits_stride,
    num_splits,
    WORDS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Store one row's token: the winner of the race among the tokens that top-k and top-p keep."""
    row = tl.program_id(0).to(tl.int64)
    best, token = _load_best(parts.best, parts.at, row, num_splits, BLOCK)
    temperature = tl.load(draws.temperatures + row)
    if (temperature >= _GREEDY) & (best > float("-inf")):
        _clock, token = _load_best(found.clocks, found.winners, row, num_splits, BLOCK)
        top_k = _load_or(top_ks, row, tl.full((), 0, tl.int64))
        top_p = _load_or(top_ps, row, 1.0)
        if (top_k > 0) | (top_p < 1):
            rows = Logits(logits, logits_stride, num_rows, vocab_size)
            min_p = _load_or(draws.min_ps, row, 0.0)
            place = find_row(rows, masks, row)
            tokens = RowTokens(rows, masks, place, best, temperature, min_p)
            state = _state_of(draws, row)
            mass = _load_sum(found.masses, row, num_splits, BLOCK)
            token = _settle(tokens, state, token, mass, top_k, top_p, WORDS)
    tl.store(output + row, tl.where(best == float("-inf"), -1, token))


def masked_sample(
    logits: Tensor,
    rows: BitmaskRows | None,
    params: SamplingTensors,
    positions: Tensor,
) -> Tensor:
    """See reference.masked_sample."""
    if params.temperature is None:
        return masked_argmax(logits, rows)
    num_rows, vocab_size = logits.shape
    launch = choose_launch(num_rows, vocab_size, logits.device, pruned=False)
    masks = RowArguments.of(rows)
    parts = launch_argmax(logits, masks, None, launch, None)
    assert parts is not None
    draws = _Draws(params.temperature, params.min_p, params.seed, positions)
    found = _empty_race(parts)
    output = torch.empty(num_rows, dtype=torch.int32, device=logits.device)
    sizes = num_rows, vocab_size, logits.stride(0), launch.num_splits
    _race_kernel[(num_rows, launch.num_splits)](
        logits,
        masks,
        parts,
        draws,
        found,
        *sizes,
        launch.share,
        WORDS=launch.tile // 32,
        BLOCK=MOST_SPLITS,
        num_warps=launch.num_warps,
    )
    _settle_kernel[(num_rows,)](
        logits,
        masks,
        parts,
        draws,
        params.top_k,
        params.top_p,
        found,
        output,
        *sizes,
        WORDS=128,
        BLOCK=MOST_SPLITS,
        num_warps=16,
    )
    return output


def _empty_race(parts: Parts) -> _Race:
    return _Race(
        torch.empty_like(parts.best),
        torch.empty_like(parts.at),
        torch.empty_like(parts.best, dtype=torch.float64),
    )
