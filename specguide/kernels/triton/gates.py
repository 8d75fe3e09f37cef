"""Owns the Triton kernels that gate the outputs of attention: gated_norm of linear attention, and
sigmoid_mul."""

# mypy: allow-untyped-defs

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from specguide.kernels.triton.device import await_results, overlap

_NUMBERS_EACH = 2048
"""Numbers that one program computes."""


class _Heads(NamedTuple):
    """A pointer to heads, their strides between tokens, groups and heads, and the heads in each
    group."""

    heads: Any
    stride: Any
    group_stride: Any
    head_stride: Any
    num_each: Any


@triton.jit
def _load_heads(source, row, dim, exists, NUM_HEADS: tl.constexpr):
    """Some heads of all tokens, float32."""
    token, head = (row // NUM_HEADS).to(tl.int64), row % NUM_HEADS
    at = source.heads + token * source.stride + head // source.num_each * source.group_stride
    at += head % source.num_each * source.head_stride
    return tl.load(at + dim, mask=exists, other=0).to(tl.float32)


@triton.jit(do_not_specialize=["num_rows"])
def _gate_kernel(
    x,
    gate,
    weight,
    output,
    num_rows,
    eps,
    NUM_HEADS: tl.constexpr,
    DIM: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
    OVERLAP: tl.constexpr,
):
    """Gate some heads. With a weight they are normed first, and the gate is SiLU's; without one it
    is the sigmoid."""
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    dim = tl.arange(0, BLOCK)[None, :]
    exists = (row < num_rows) & (dim < DIM)
    if weight is not None:
        weights = tl.load(weight + dim, mask=dim < DIM, other=0).to(tl.float32)
    await_results(OVERLAP)
    values = _load_heads(x, row, dim, exists, NUM_HEADS)
    gates = _load_heads(gate, row, dim, exists, NUM_HEADS)
    factor = tl.sigmoid(gates)
    if weight is not None:
        values *= tl.rsqrt(tl.sum(values * values, 1) / DIM + eps)[:, None]
        values = values.to(output.dtype.element_ty).to(tl.float32) * weights
        factor *= gates
    tl.store(output + row.to(tl.int64) * DIM + dim, values * factor, mask=exists)


def gated_norm(x: Tensor, gate: Tensor, weight: Tensor, eps: float) -> Tensor:
    """See delta_rule.gated_norm."""
    of_token, of_group, of_head, _ = gate.stride()
    return _launch(x, _Heads(gate, of_token, of_group, of_head, gate.shape[2]), weight, eps)


def sigmoid_mul(x: Tensor, gate: Tensor) -> Tensor:
    """See delta_rule.sigmoid_mul."""
    return _launch(x, _heads(gate), None, 0.0)


def _heads(x: Tensor) -> _Heads:
    return _Heads(x, x.stride(0), x.stride(1), 0, 1)


def _launch(x: Tensor, gate: _Heads, weight: Tensor | None, eps: float) -> Tensor:
    num_tokens, num_heads, dim = x.shape
    output = torch.empty(num_tokens, num_heads * dim, dtype=x.dtype, device=x.device)
    num_rows = num_tokens * num_heads
    block = triton.next_power_of_2(dim)
    num_each = max(1, _NUMBERS_EACH // block)
    _gate_kernel[(triton.cdiv(num_rows, num_each),)](
        _heads(x),
        gate,
        weight,
        output,
        num_rows,
        eps,
        NUM_HEADS=num_heads,
        DIM=dim,
        ROWS=num_each,
        BLOCK=block,
        num_warps=4,
        **overlap(x.device),
    )
    return output
