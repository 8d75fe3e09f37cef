"""Owns the Triton routing of tokens to experts: the choice of experts, and the pairs sorted by
expert.

For few tokens one program does everything, since every launch before the products costs time. For
many tokens each program first chooses experts for some tokens, and later finds the pairs of one
expert. Nothing is counted by atomics, so the order of the pairs is the same in every run. Only HELD
experts are on this rank, from FIRST on, numbered from 0; there are no blocks for the others.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from specguide.kernels.experts import LEAST_SUM, ExpertBlocks, Routing, RoutingRule
from specguide.kernels.triton.device import await_results, overlap

_MOST_SCORES = 8192
"""Maximum scores for which one program routes all tokens."""
_TOKENS_EACH = 16
_PAIRS_EACH = 1024
_LEAST_SUM = tl.constexpr(LEAST_SUM)


class Rule(NamedTuple):
    """A RoutingRule for a kernel. bias, factors: float32 [experts] or None. GROUPS, KEPT: groups of
    experts, and those of which a token chooses"""

    bias: Any
    factors: Any
    K: Any
    NORMALISED: Any
    SIGMOID: Any
    SCALE: Any
    GROUPS: Any
    KEPT: Any


@triton.jit
def _choose(score, token, expert, num_tokens, NUM_EXPERTS: tl.constexpr, K: tl.constexpr):
    """The rank of each expert among a token's K experts, [tokens, experts]; -1 if it is not
    chosen."""
    place = tl.where((token < num_tokens) & (expert < NUM_EXPERTS), -1, K)
    for number in tl.static_range(K):
        best = tl.max(tl.where(place < 0, score, float("-inf")), 1)[:, None]
        is_best = (place < 0) & (score == best)
        at = tl.min(tl.where(is_best, expert, 2**30), 1)[:, None]
        place = tl.where(expert == at, number, place)
    return tl.where(place < K, place, -1)


@triton.jit
def _of_kept_groups(score, expert, rule, NUM_EXPERTS: tl.constexpr):
    """The scores of the groups that each token chooses from; -∞ for the others."""
    SIZE: tl.constexpr = NUM_EXPERTS // rule.GROUPS
    total = tl.full(score.shape, float("-inf"), tl.float32)
    for group in tl.static_range(rule.GROUPS):
        own = tl.where((expert // SIZE == group) & (expert < NUM_EXPERTS), score, float("-inf"))
        best = tl.max(own, 1)[:, None]
        if rule.SIGMOID:
            at = tl.min(tl.where(own == best, expert, 2**30), 1)[:, None]
            best += tl.max(tl.where(expert == at, float("-inf"), own), 1)[:, None]
        total = tl.where(expert // SIZE == group, best, total)
    is_kept = expert < 0
    for _ in tl.static_range(rule.KEPT):
        left = tl.where(is_kept | (expert >= NUM_EXPERTS), float("-inf"), total)
        is_best = ~is_kept & (expert < NUM_EXPERTS) & (left == tl.max(left, 1)[:, None])
        group = tl.min(tl.where(is_best, expert // SIZE, 2**30), 1)[:, None]
        is_kept = is_kept | (expert // SIZE == group)
    return tl.where(is_kept, score, float("-inf"))


@triton.jit
def _load_logits(logits, logits_stride, token, expert, num_tokens, NUM_EXPERTS: tl.constexpr):
    """The logits of tokens and experts. NaN counts as the lowest logit, because each token must get
    K experts, whatever its logits are."""
    source = logits + token.to(tl.int64) * logits_stride + expert
    exists = (token < num_tokens) & (expert < NUM_EXPERTS)
    logit = tl.load(source, mask=exists, other=float("-inf")).to(tl.float32)
    return tl.where(logit == logit, logit, float("-inf"))


@triton.jit
def _place_and_weight(logit, token, expert, num_tokens, rule, NUM_EXPERTS: tl.constexpr):
    """The rank of each expert as `_choose` has it, and its weight, both [tokens, experts]."""
    if rule.SIGMOID:
        score = 1.0 / (1.0 + tl.exp(-logit))
    else:
        score = tl.exp(logit - tl.max(logit, 1)[:, None])
    ranked = logit
    if rule.bias is not None:
        probability = score
        if not rule.SIGMOID:
            probability = score / tl.sum(score, 1)[:, None]
        ranked = probability + tl.load(rule.bias + expert, mask=expert < NUM_EXPERTS, other=0.0)
        ranked = tl.where(ranked == ranked, ranked, float("-inf"))
    if rule.GROUPS > 1:
        ranked = _of_kept_groups(ranked, expert, rule, NUM_EXPERTS)
    place = _choose(ranked, token, expert, num_tokens, NUM_EXPERTS, rule.K)
    weight = score
    if rule.NORMALISED:
        weight = score / (tl.sum(tl.where(place >= 0, score, 0.0), 1)[:, None] + _LEAST_SUM)
    elif not rule.SIGMOID:
        weight = score / tl.sum(score, 1)[:, None]
    if rule.factors is not None:
        weight *= tl.load(rule.factors + expert, mask=expert < NUM_EXPERTS, other=0.0)
    return place, weight * rule.SCALE


@triton.jit(do_not_specialize=["num_tokens"])
def _route_few_kernel(
    logits,
    weights,
    pairs,
    block_experts,
    block_sizes,
    num_blocks,
    num_tokens,
    logits_stride,
    rule,
    NUM_EXPERTS: tl.constexpr,
    FIRST: tl.constexpr,
    HELD: tl.constexpr,
    TOKENS: tl.constexpr,
    EXPERTS: tl.constexpr,
    ROWS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Choose experts for all tokens and sort the pairs, in one program."""
    await_results(OVERLAP)
    token, expert = tl.arange(0, TOKENS)[:, None], tl.arange(0, EXPERTS)[None, :]
    logit = _load_logits(logits, logits_stride, token, expert, num_tokens, NUM_EXPERTS)
    place, weight = _place_and_weight(logit, token, expert, num_tokens, rule, NUM_EXPERTS)
    pair, is_pair = token * rule.K + place, place >= 0
    tl.store(weights + pair, weight, mask=is_pair)
    is_held = is_pair & (expert >= FIRST) & (expert < FIRST + HELD)
    counted = is_held.to(tl.int32)
    count = tl.sum(counted, 0)
    blocks = tl.cdiv(count, ROWS)
    first = tl.cumsum(blocks, 0) - blocks
    rank = tl.cumsum(counted, 0) - counted
    tl.store(pairs + first[None, :] * ROWS + rank, pair, mask=is_held)
    for number in tl.static_range(0, (TOKENS + ROWS - 1) // ROWS):
        is_block = number < blocks
        tl.store(block_experts + first + number, tl.arange(0, EXPERTS) - FIRST, mask=is_block)
        size = tl.minimum(count - number * ROWS, ROWS)
        tl.store(block_sizes + first + number, size, mask=is_block)
    tl.store(num_blocks, tl.sum(blocks, 0))


@triton.jit(do_not_specialize=["num_tokens"])
def _choose_kernel(
    logits,
    experts,
    weights,
    num_tokens,
    logits_stride,
    rule,
    NUM_EXPERTS: tl.constexpr,
    TOKENS: tl.constexpr,
    EXPERTS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Choose the experts of some tokens."""
    await_results(OVERLAP)
    token = (tl.program_id(0) * TOKENS + tl.arange(0, TOKENS))[:, None]
    expert = tl.arange(0, EXPERTS)[None, :]
    logit = _load_logits(logits, logits_stride, token, expert, num_tokens, NUM_EXPERTS)
    place, weight = _place_and_weight(logit, token, expert, num_tokens, rule, NUM_EXPERTS)
    pair, is_pair = token * rule.K + place, place >= 0
    tl.store(weights + pair, weight, mask=is_pair)
    tl.store(experts + pair, expert, mask=is_pair)


@triton.jit(do_not_specialize=["num_pairs"])
def _count_kernel(
    experts, counts, num_pairs, FIRST: tl.constexpr, PAIRS: tl.constexpr, OVERLAP: tl.constexpr
):
    """Count the pairs of one expert."""
    await_results(OVERLAP)
    expert, total = tl.program_id(0), tl.zeros((PAIRS,), tl.int32)
    for start in range(0, num_pairs, PAIRS):
        pair = start + tl.arange(0, PAIRS)
        found = tl.load(experts + pair, mask=pair < num_pairs, other=-1)
        total += (found == expert + FIRST).to(tl.int32)
    tl.store(counts + expert, tl.sum(total, 0))


@triton.jit(do_not_specialize=["num_pairs"])
def _sort_kernel(
    experts,
    counts,
    pairs,
    block_experts,
    block_sizes,
    num_blocks,
    num_pairs,
    FIRST: tl.constexpr,
    HELD: tl.constexpr,
    EXPERTS: tl.constexpr,
    ROWS: tl.constexpr,
    PAIRS: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Write the blocks of one expert, and its pairs in order."""
    await_results(OVERLAP)
    expert, each = tl.program_id(0), tl.arange(0, EXPERTS)
    all_blocks = tl.cdiv(tl.load(counts + each, mask=each < HELD, other=0), ROWS)
    first = tl.sum(tl.where(each < expert, all_blocks, 0), 0)
    tl.store(num_blocks, tl.sum(all_blocks, 0))  # all programs store the same
    count = tl.load(counts + expert)
    for number in range(0, tl.cdiv(count, ROWS)):
        tl.store(block_experts + first + number, expert)
        tl.store(block_sizes + first + number, tl.minimum(count - number * ROWS, ROWS))
    sink = pairs + first * ROWS
    for start in range(0, num_pairs, PAIRS):
        pair = start + tl.arange(0, PAIRS)
        is_own = tl.load(experts + pair, mask=pair < num_pairs, other=-1) == expert + FIRST
        counted = is_own.to(tl.int32)
        tl.store(sink + tl.cumsum(counted, 0) - counted, pair, mask=is_own)
        sink += tl.sum(counted, 0)


def route(
    logits: Tensor,
    rule: RoutingRule,
    bias: Tensor | None = None,
    held: range | None = None,
    factors: Tensor | None = None,
) -> Routing:
    """See experts.route."""
    (num_tokens, num_experts), num_chosen = logits.shape, rule.num_chosen
    here = held or range(num_experts)
    device = logits.device
    weights = torch.empty(num_tokens, num_chosen, dtype=torch.float32, device=device)
    blocks = _empty_blocks(num_tokens * num_chosen, num_experts, device)
    constants = dict(EXPERTS=triton.next_power_of_2(num_experts), **overlap(device))
    part = dict(FIRST=here.start, HELD=len(here))
    constants_of_rule = num_chosen, rule.is_normalised, rule.is_sigmoid, rule.scale
    numbers = map(tl.constexpr, (*constants_of_rule, rule.num_groups, rule.num_kept_groups))
    choice = dict(rule=Rule(bias, factors, *numbers), NUM_EXPERTS=num_experts)
    tokens = triton.next_power_of_2(max(1, num_tokens))
    arguments = (blocks.pairs, blocks.experts, blocks.sizes, blocks.num)
    if tokens * constants["EXPERTS"] <= _MOST_SCORES:
        _route_few_kernel[(1,)](
            logits,
            weights,
            *arguments,
            num_tokens,
            logits.stride(0),
            **choice,
            **part,
            TOKENS=tokens,
            ROWS=blocks.rows,
            num_warps=8,
            **constants,
        )
    else:
        experts = torch.empty(num_tokens, num_chosen, dtype=torch.int32, device=device)
        _choose_kernel[(triton.cdiv(num_tokens, _TOKENS_EACH),)](
            logits,
            experts,
            weights,
            num_tokens,
            logits.stride(0),
            **choice,
            TOKENS=_TOKENS_EACH,
            num_warps=4,
            **constants,
        )
        _sort(experts, blocks, part, constants)
    return Routing(None, weights, blocks, held is None)


def _sort(
    experts: Tensor, blocks: ExpertBlocks, part: dict[str, int], constants: dict[str, Any]
) -> None:
    """Fill `blocks` with the pairs of experts [T, k]."""
    counts = torch.empty(part["HELD"], dtype=torch.int32, device=experts.device)
    _count_kernel[(len(counts),)](
        experts,
        counts,
        experts.numel(),
        FIRST=part["FIRST"],
        PAIRS=_PAIRS_EACH,
        num_warps=4,
        **overlap(experts.device),
    )
    _sort_kernel[(len(counts),)](
        experts,
        counts,
        blocks.pairs,
        blocks.experts,
        blocks.sizes,
        blocks.num,
        experts.numel(),
        **part,
        ROWS=blocks.rows,
        PAIRS=_PAIRS_EACH,
        num_warps=4,
        **constants,
    )


def _empty_blocks(num_pairs: int, num_experts: int, device: torch.device) -> ExpertBlocks:
    """Uninitialised blocks, each for twice the pairs that an expert has on average, so that most
    experts need only one block."""
    rows = min(128, max(16, triton.next_power_of_2(2 * num_pairs // num_experts)))
    most_blocks = min(num_pairs, triton.cdiv(num_pairs, rows) + num_experts)

    empty = partial(torch.empty, dtype=torch.int32, device=device)
    pairs, experts, sizes = empty(most_blocks * rows), empty(most_blocks), empty(most_blocks)
    return ExpertBlocks(rows, pairs, experts, sizes, empty(1))
