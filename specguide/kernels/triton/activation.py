"""Owns the Triton kernel of the gated activation."""

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
