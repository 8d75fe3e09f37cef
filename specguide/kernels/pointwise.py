"""Owns the plain-torch kernels of what stands between a layer's matrix products: norms, rotation, activation."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from specguide.kernels.reference import store_kv


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / √(mean(x²) + eps) · weight over the last dimension (Zhang and Sennrich 2019).

    x:      [..., D]; [T, heads, D] where each head has its own weight
    weight: [D] or [heads, D], of x's dtype
    Returns x's shape and dtype.
    """
    if weight.dim() == 1:
        return F.rms_norm(x, weight.shape, weight, eps)
    return F.rms_norm(x, weight.shape[-1:], None, eps) * weight


def add_rms_norm(residual: Tensor, x: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """(residual + x, rms_norm(residual + x)); residual and x [T, D] of one dtype, weight [D]."""
    total = residual + x
    return total, rms_norm(total, weight, eps)


def silu_mul(gate_up: Tensor) -> Tensor:
    """silu(gate) · up of a product that holds both side by side, gate first: [T, 2 · D] → [T, D]."""
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate).mul_(up)


def rope_and_store(query_key: Tensor, value: Tensor, rotary: Tensor, key_cache: Tensor, value_cache: Tensor,
                   slot_mapping: Tensor) -> Tensor:
    """Rotate queries and keys to their positions, and store keys and values as `store_kv` does.

    query_key:    [T, num_heads + num_kv_heads, head_dim], queries first
    value:        [T, num_kv_heads, head_dim]
    rotary:       [T, 2, 1, head_dim], cosine and signed sine (its first half negative) at the tokens' positions
    Returns the rotated queries [T, num_heads, head_dim]. The rotation is that of Su et al. 2021 in the halves layout:
    dimension i turns with dimension i + head_dim / 2.
    """
    rotated = torch.addcmul(query_key * rotary[:, 0], query_key.roll(query_key.shape[-1] // 2, dims=-1), rotary[:, 1])
    num_heads = query_key.shape[1] - value.shape[1]
    store_kv(rotated[:, num_heads:], value, key_cache, value_cache, slot_mapping)
    return rotated[:, :num_heads]
