"""Owns the root-mean-square norm."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / √(mean(x²) + eps) · weight over the last dimension (Zhang and Sennrich 2019), in x's dtype.

    x [..., D], weight [D] or [heads, D].
    """
    if x.is_cuda or x.dtype != torch.float32:
        if weight.dim() == 1:
            return F.rms_norm(x, weight.shape, weight, eps)
        return F.rms_norm(x, weight.shape[-1:], None, eps) * weight
    # On a CPU, F.rms_norm takes half as long again as these operations when x is a few tokens.
    norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    scale = norm.mul_(norm).mul_(1.0 / x.shape[-1]).add_(eps).rsqrt_()
    return (x * scale).mul_(weight)
