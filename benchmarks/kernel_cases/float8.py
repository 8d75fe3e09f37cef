"""Owns the inputs of float8 products."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.gpu.timing import DEVICE
from specguide import kernels
from specguide.kernels import Float8Rows, Float8Scaling, float8

DTYPE = torch.bfloat16
"""Dtype of the numbers that are rounded to float8, and of products."""
Inputs = tuple[Float8Rows, Tensor, Tensor]
"""x, weight and its scales."""


def inputs_of(num_rows: int, shape: tuple[int, int], *, has_blocks: bool) -> Inputs:
    num_outputs, num_inputs = shape
    x = torch.randn(num_rows, num_inputs, device=DEVICE, dtype=DTYPE)
    weight = torch.randn(num_outputs, num_inputs, device=DEVICE, dtype=DTYPE)
    scales = (num_outputs // 128, num_inputs // 128) if has_blocks else (num_outputs,)
    scale = torch.rand(scales, device=DEVICE) * num_inputs**-0.5
    rows = kernels.to_float8(x, Float8Scaling(is_grouped=has_blocks))
    return rows, weight.to(float8.FLOAT8), scale
