"""Owns the Triton kernels of the gated activation and of a limit on logits."""

# mypy: allow-untyped-defs

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from specguide.kernels.triton.device import await_results, overlap


@triton.jit
def _silu_mul_kernel(gate_up, output, row_stride, dim, BLOCK: tl.constexpr, OVERLAP: tl.constexpr):
    await_results(OVERLAP)
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    exists = column < dim
    gate = tl.load(gate_up + row * row_stride + column, mask=exists, other=0).to(tl.float32)
    up = tl.load(gate_up + row * row_stride + dim + column, mask=exists, other=0).to(tl.float32)
    tl.store(output + row * dim + column, gate / (1.0 + tl.exp(-gate)) * up, mask=exists)


def silu_mul(gate_up: Tensor) -> Tensor:
    """See pointwise.silu_mul."""
    num_tokens, dim = gate_up.shape[0], gate_up.shape[1] // 2
    output = torch.empty(num_tokens, dim, dtype=gate_up.dtype, device=gate_up.device)
    block = 1024
    _silu_mul_kernel[(num_tokens, triton.cdiv(dim, block))](
        gate_up, output, gate_up.stride(0), dim, BLOCK=block, num_warps=4, **overlap(gate_up.device)
    )
    return output


@triton.jit
def _limit_softly_kernel(x, limit, row_stride, dim, BLOCK: tl.constexpr, OVERLAP: tl.constexpr):
    await_results(OVERLAP)
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    exists = column < dim
    value = tl.load(x + row * row_stride + column, mask=exists, other=0).to(tl.float32)
    # tanh(x) = 1 - 2 / (1 + e^2x), which is right where e^2x overflows, too.
    limited = limit * (1.0 - 2.0 / (1.0 + tl.exp(2.0 / limit * value)))
    tl.store(x + row * row_stride + column, limited, mask=exists)


def limit_softly(x: Tensor, limit: float) -> Tensor:
    """See pointwise.limit_softly."""
    num_rows, dim = x.shape
    block = 1024
    _limit_softly_kernel[(num_rows, triton.cdiv(dim, block))](
        x, limit, x.stride(0), dim, BLOCK=block, num_warps=4, **overlap(x.device)
    )
    return x
