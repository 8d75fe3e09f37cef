"""Owns the plain-torch kernels of a mixture of experts, and their inputs: Routing, and
ExpertMatrices or Int4Experts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from specguide.kernels.int4 import Int4Matrix, int4_linear

MXFP4_GROUP = 32
"""Number of columns that share a scale (OCP Microscaling Formats 1.0)."""

LEAST_SUM = 1e-20
"""Added to a sum of scores, all of which may be 0 after rounding."""

_FP4_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


@dataclass(frozen=True, eq=False)
class ExpertBlocks:
    """The (token, expert) pairs of a pass sorted by expert, in blocks of one expert each, as fast
    kernels read them. All tensors are on the device, so that nobody waits for the number of blocks.

    rows:    maximum pairs in a block
    pairs:   int32 [maximum blocks · rows], token · k + place of each pair of a block
    experts: int32 [maximum blocks], expert of each block
    sizes:   int32 [maximum blocks], number of pairs in each block
    num:     int32 [1], number of blocks in use
    """

    rows: int
    pairs: Tensor
    experts: Tensor
    sizes: Tensor
    num: Tensor


@dataclass(frozen=True, eq=False)
class Routing:
    """Which k experts compute each of T tokens.

    experts: int [T, k], -1 where another rank has the expert; None if only `blocks` says it
    weights: float32 [T, k], factors on the experts' outputs in the sum
    blocks:  the pairs in the form that kernels read; None on a CPU
    is_whole: this rank has all experts; else the outputs of pairs with other ranks' experts are 0
    """

    experts: Tensor | None
    weights: Tensor
    blocks: ExpertBlocks | None = None
    is_whole: bool = True

    def products(self, x: Tensor, product: Callable[[Tensor, int], Tensor]) -> Tensor:
        """The products of all pairs, each with its expert. The experts in use are read back to the
        host.

        x:       [T, in], a row for each token, or [T · k, in], a row for each pair
        product: gives the product of rows [n, in] with the matrix of an expert, [n, out]
        Returns [T · k, out].
        """
        assert self.experts is not None
        experts = self.experts.flatten()
        order = experts.argsort(stable=True)
        order = order[int((experts < 0).sum()) :]
        rows = x[order // max(1, len(experts) // max(1, len(x)))]
        chunks = rows.split(experts[order].bincount(minlength=1).tolist())
        sorted_products = torch.cat(
            [product(chunk, expert) for expert, chunk in enumerate(chunks) if len(chunk)]
            or [product(rows, 0)]
        )
        products = sorted_products.new_zeros(len(experts), sorted_products.shape[1])
        return products.index_copy_(0, order, sorted_products)


@dataclass(frozen=True)
class RoutingRule:
    """How the experts of a token are chosen, and with which weights their outputs are summed.

    num_chosen:    experts per token
    is_normalised: the scores of the chosen experts are divided by their sum
    is_sigmoid:    the score of an expert is the sigmoid of its logit (DeepSeek-V3, arXiv
                   2412.19437); else its probability in a softmax over all experts
    scale:         factor on the weights
    num_groups:    groups into which the experts are divided, in order
    num_kept_groups: of these, how many a token chooses from: those whose two best scores have the
                   highest sum (DeepSeek-V3), or without sigmoids those with the highest score
                   (DeepSeek-V2, arXiv 2405.04434)
    """

    num_chosen: int
    is_normalised: bool = True
    is_sigmoid: bool = False
    scale: float = 1.0
    num_groups: int = 1
    num_kept_groups: int = 1

    @property
    def num_of_group(self) -> int:
        """How many scores of a group are summed to compare it with others."""
        return 2 if self.is_sigmoid else 1


@dataclass(frozen=True)
class GateLimits:
    """The gated activation of gpt-oss: gate · sigmoid(alpha · gate) · (up + 1), where gate is
    clamped to at most `limit` and up to ± limit. limit: None: that of GELU_TANH instead"""

    alpha: float
    limit: float | None


GELU_TANH = GateLimits(2 * math.sqrt(2 / math.pi), None)
"""gelu(gate) · up by the tanh formula, which is gate · sigmoid(alpha · (gate + 0.044715 · gate³)) ·
up."""


@dataclass(frozen=True, eq=False)
class ExpertMatrices:
    """One matrix [out, in] for each of E experts.

    values: [E, out, in] of the inputs' dtype or float8_e4m3fn; or uint8 [E, out, in / 2], each byte
            two 4-bit numbers (E2M1), the even column in its lower bits
    scales: for float8, float32 [E, ⌈out / r⌉, ⌈in / c⌉], a factor for each `block` of r × c; for 4
            bits, uint8 [E, out, in / 32], exponents of two + 127; None for the inputs' dtype
    bias:   [E, out] or None
    """

    values: Tensor
    scales: Tensor | None = None
    bias: Tensor | None = None
    block: tuple[int, int] = (1, 1)

    @property
    def device(self) -> torch.device:
        return self.values.device

    @property
    def is_mxfp4(self) -> bool:
        return self.values.dtype == torch.uint8

    @property
    def num_experts(self) -> int:
        return self.values.shape[0]

    @property
    def out_features(self) -> int:
        return self.values.shape[1]

    @property
    def in_features(self) -> int:
        return self.values.shape[2] * (2 if self.is_mxfp4 else 1)

    def matrix(self, expert: int, dtype: torch.dtype) -> Tensor:
        """The matrix of one expert, [out, in], in `dtype`."""
        values = self.values[expert]
        if self.scales is None:
            return values
        if self.is_mxfp4:
            return mxfp4_numbers(values, self.scales[expert]).to(dtype)
        scales = self.scales[expert]
        for axis, size in enumerate(self.block):
            scales = scales.repeat_interleave(size, axis).narrow(axis, 0, values.shape[axis])
        return (values.float() * scales).to(dtype)

    def product(self, x: Tensor, expert: int) -> Tensor:
        """The product with one expert's matrix: x [T, in] → x · matrixᵀ + bias [T, out]."""
        bias = None if self.bias is None else self.bias[expert]
        return F.linear(x, self.matrix(expert, x.dtype), bias)


@dataclass(frozen=True, eq=False)
class Int4Experts:
    """One matrix [out, in] for each of E experts, in integers of 4 bits, packed as in Int4Matrix.

    words:      int16 [E, tiles, out, width]
    scales:     [E, groups, out], of a float dtype
    zeros:      uint8 [E, groups, out]; None: all are 8
    bias:       [E, out] or None
    group_size: number of columns that share a scale
    """

    words: Tensor
    scales: Tensor
    zeros: Tensor | None
    bias: Tensor | None
    group_size: int
    in_features: int

    @classmethod
    def empty(
        cls, num: int, like: Int4Matrix, device: torch.device, bias: Tensor | None
    ) -> Int4Experts:
        """Uninitialised matrices. like: a matrix of their shape, on any device"""

        def each(tensor: Tensor) -> Tensor:
            return torch.empty(num, *tensor.shape, dtype=tensor.dtype, device=device)

        zeros = None if like.zeros is None else each(like.zeros)
        words, scales = each(like.words), each(like.scales)
        return cls(words, scales, zeros, bias, like.group_size, like.in_features)

    @property
    def device(self) -> torch.device:
        return self.words.device

    @property
    def out_features(self) -> int:
        return self.words.shape[2]

    def expert(self, expert: int) -> Int4Matrix:
        """A view of one expert's matrix."""
        zeros = None if self.zeros is None else self.zeros[expert]
        words, scales = self.words[expert], self.scales[expert]
        return Int4Matrix(words, scales, zeros, self.group_size, self.in_features)

    def product(self, x: Tensor, expert: int) -> Tensor:
        """The product with one expert's matrix: x [T, in] → x · matrixᵀ + bias [T, out]."""
        bias = None if self.bias is None else self.bias[expert]
        return int4_linear(x, self.expert(expert), bias)


AnyExperts = ExpertMatrices | Int4Experts


def mxfp4_numbers(values: Tensor, scales: Tensor) -> Tensor:
    """The numbers float32 [out, in] of values uint8 [out, in / 2] and scales uint8 [out, in / 32],
    as ExpertMatrices has them."""
    table = torch.tensor([*_FP4_VALUES, *(-value for value in _FP4_VALUES)], device=values.device)
    both = torch.stack([values & 15, values >> 4], dim=-1).flatten(-2)
    exponents = scales.to(torch.int32).repeat_interleave(MXFP4_GROUP, -1) - 127
    return torch.ldexp(table[both.to(torch.int64)], exponents)


def route(
    logits: Tensor,
    rule: RoutingRule,
    bias: Tensor | None = None,
    held: range | None = None,
    factors: Tensor | None = None,
) -> Routing:
    """The experts of each token: those with its highest scores.

    logits:  [T, E]
    bias:    float32 [E], added to the scores for the choice, not for the weights; None: 0
    held:    the experts that this rank has, numbered from 0 in the Routing; None: all
    factors: float32 [E], on the weights of each expert; None: 1
    """
    logits = logits.float()
    scores = logits.sigmoid() if rule.is_sigmoid else logits.softmax(-1)
    ranked = _of_kept_groups(scores if bias is None else scores + bias, rule)
    experts = ranked.topk(rule.num_chosen).indices
    weights = scores.gather(-1, experts)
    if rule.is_normalised:
        weights = weights / (weights.sum(-1, keepdim=True) + LEAST_SUM)
    weights = weights * rule.scale if factors is None else weights * factors[experts] * rule.scale
    if held is None:
        return Routing(experts, weights)
    is_held = (experts >= held.start) & (experts < held.stop)
    return Routing(torch.where(is_held, experts - held.start, -1), weights, is_whole=False)


def _of_kept_groups(scores: Tensor, rule: RoutingRule) -> Tensor:
    """The scores [T, E] of the groups that a token chooses from; -∞ for the others."""
    if rule.num_groups == 1:
        return scores
    groups = scores.unflatten(1, (rule.num_groups, -1))
    totals = groups.topk(rule.num_of_group).values.sum(2)
    kept = torch.zeros_like(totals, dtype=torch.bool)
    kept.scatter_(1, totals.topk(rule.num_kept_groups).indices, True)
    return groups.masked_fill(~kept[:, :, None], float("-inf")).flatten(1)


def gated_experts(
    x: Tensor, matrices: AnyExperts, routing: Routing, limits: GateLimits | None = None
) -> Tensor:
    """The first products of each token's experts, activated.

    x:        [T, in]
    matrices: experts' matrices with the gates in the first half of the output features
    limits:   None: silu(gate) · up
    Returns [T · k, out / 2].
    """
    return gate(routing.products(x, matrices.product), limits)


def expert_parts(inner: Tensor, matrices: AnyExperts, routing: Routing) -> Tensor:
    """The weighted second products of the experts: inner [T · k, in] → [k, T, out], yet to be
    summed over k; in inner's dtype or float32."""
    return weighted(routing.products(inner, matrices.product), routing)


def weighted(products: Tensor, routing: Routing) -> Tensor:
    """The pairs' products times their weights: [T · k, out] → [k, T, out]."""
    parts = products.unflatten(0, routing.weights.shape) * routing.weights[:, :, None]
    return parts.to(products.dtype).transpose(0, 1)


def gate(gate_up: Tensor, limits: GateLimits | None) -> Tensor:
    """The gated activation: gate_up [T, 2 · D], gates first → [T, D]."""
    gates, ups = gate_up.chunk(2, dim=-1)
    if limits is None:
        return F.silu(gates).mul_(ups)
    if limits.limit is None:
        return F.gelu(gates, approximate="tanh").mul_(ups)
    gates = gates.clamp(max=limits.limit)
    ups = ups.clamp(-limits.limit, limits.limit)
    return gates * torch.sigmoid(gates * limits.alpha) * (ups + 1)
