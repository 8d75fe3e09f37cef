"""Owns random products with weights of 4 bits that the kernel tests share."""

from __future__ import annotations

import torch
from torch import Tensor

from specguide.kernels import Int4Matrix
from specguide.kernels.int4 import pack_words


def case(
    shape: tuple[int, int, int, int], dtype: torch.dtype, has_zeros: bool
) -> tuple[Tensor, Int4Matrix, Tensor]:
    """Inputs, weights and a bias. shape: rows, output features, input features and the group
    size"""
    num_rows, num_outputs, num_inputs, group_size = shape
    random = torch.Generator().manual_seed(num_outputs)
    device = torch.device("cpu")
    scale_dtype = torch.float32 if dtype == torch.float32 else torch.float16
    matrix = Int4Matrix.empty(
        (num_outputs, num_inputs), group_size, scale_dtype, device, has_zeros=has_zeros
    )
    numbers = torch.randint(16, (num_outputs, num_inputs), generator=random)
    matrix.words.copy_(pack_words(numbers, group_size))
    matrix.scales.copy_(0.1 + torch.rand(matrix.scales.shape, generator=random))
    matrix.scales.mul_(0.3 * num_inputs**-0.5)
    if matrix.zeros is not None:
        matrix.zeros.random_(0, 16, generator=random)
    x, bias = (
        torch.randn(size, generator=random).to(dtype)
        for size in ((num_rows, num_inputs), (num_outputs,))
    )
    return x, matrix, bias
