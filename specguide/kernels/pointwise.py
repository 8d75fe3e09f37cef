"""Owns the plain-torch kernels of a layer other than its attention: products, norms, rotation,
activation."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from specguide.kernels.kv_scales import UNSCALED, KVScales, cached
from specguide.kernels.peers import Peers, sum_over_ranks
from specguide.kernels.rotary_layout import HALVES, RotaryLayout


class ProductScales(NamedTuple):
    """The scales by which a product [T, D] still has to be multiplied by the kernel that reads it.

    rows:    float32 [T, 1]
    columns: float32 [D]
    """

    rows: Tensor
    columns: Tensor


def scaled(product: Tensor, scales: ProductScales | None) -> Tensor:
    """The product [..., T, D] times its scales; float32 if there are scales."""
    return product if scales is None else product.float() * scales.columns * scales.rows


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / √(mean(x²) + eps) · weight over the last dimension (Zhang and Sennrich 2019).

    x:      [..., D]; [T, heads, D] if each head has its own weight
    weight: [D] or [heads, D], of x's dtype or float32
    Returns x's shape and dtype.
    """
    if weight.dtype != x.dtype:
        return rms_norm(x.to(weight.dtype), weight, eps).to(x.dtype)
    if x.dtype == torch.float32:
        # On a CPU torch's own rms_norm takes 1.5 times as long as these five calls for few tokens.
        norm = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        added = _scalar(eps, x.dtype, x.device)
        scale = torch.addcmul(added, norm, norm, value=1.0 / x.shape[-1]).rsqrt_()
        return (x * scale).mul_(weight)
    if weight.dim() == 1:
        return F.rms_norm(x, weight.shape, weight, eps)
    return F.rms_norm(x, weight.shape[-1:], None, eps) * weight


@cache
def _scalar(value: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A tensor of one value, made once and cached: making it takes longer than the operation that
    reads it."""
    return torch.full((), value, dtype=dtype, device=device)


def norm_into(
    output: Tensor, x: Tensor, weight: Tensor, eps: float, row_ids: Tensor | None = None
) -> None:
    """Write rms_norm(x), or rms_norm(x[row_ids]), to `output`.

    output:  [T, D] of x's dtype; its rows may have gaps between them
    x:       [R, D], R = T without row_ids
    weight:  [D]
    row_ids: int32 or int64 [T]
    """
    output.copy_(rms_norm(x if row_ids is None else x.index_select(0, row_ids), weight, eps))


def add_rms_norm(
    residual: Tensor,
    parts: Tensor,
    weight: Tensor,
    eps: float,
    scales: ProductScales | None = None,
    peers: Peers | None = None,
) -> tuple[Tensor, Tensor]:
    """(total, rms_norm(total)), where total = residual + the sum of parts · scales.

    residual: [T, D]
    parts:    [P, T, D] of residual's dtype or float32, as `linear_parts` returns them
    weight:   [D]
    peers:    the ranks whose parts are added, too; see `sum_over_ranks`
    """
    total = add_parts(residual, parts, scales, peers)
    return total, rms_norm(total, weight, eps)


def add_parts(
    residual: Tensor, parts: Tensor, scales: ProductScales | None, peers: Peers | None = None
) -> Tensor:
    """The sum of residual [T, D] and of parts [P, T, D] · scales, including the parts of the peers,
    in residual's dtype."""
    product = scaled(parts[0] if len(parts) == 1 else parts.sum(0), scales)
    if peers is not None:
        return residual + sum_over_ranks(product[None], peers)
    return residual + product.to(residual.dtype)


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x · weightᵀ + bias: x [T, in_features], weight [out_features, in_features] → [T,
    out_features]."""
    return F.linear(x, weight, bias)


def linear_parts(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """`linear` in parts that the caller still has to sum, [P, T, out_features]; float32 if there
    are several."""
    return F.linear(x, weight, bias)[None]


def gated_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """silu_mul(linear(x, weight, bias)): weight [2 · D, in_features], gate first → [T, D]."""
    return silu_mul(F.linear(x, weight, bias))


def silu_mul(gate_up: Tensor) -> Tensor:
    """silu(gate) · up of a product that holds both side by side, gate first: [T, 2 · D] → [T,
    D]."""
    gate, up = gate_up.chunk(2, dim=-1)
    return F.silu(gate).mul_(up)


def gelu_tanh_mul(gate_up: Tensor) -> Tensor:
    """gelu(gate) · up, by the tanh formula (Hendrycks and Gimpel 2016), shapes as for `silu_mul`.
    This runs on a GPU, too."""
    gate, up = gate_up.chunk(2, dim=-1)
    return F.gelu(gate, approximate="tanh").mul_(up)


def limit_softly(x: Tensor, limit: float) -> Tensor:
    """x [n, D] becomes limit · tanh(x / limit), computed in float32. Returns x."""
    return x.copy_(torch.tanh(x.float() / limit) * limit)


def rows_behind(
    normed: Tensor, features: Tensor, first: Tensor, num_behind: Tensor
) -> tuple[Tensor, Tensor]:
    """For each of B stretches of rows, the row that is `num_behind` int32 [B] rows behind the
    first; the first itself if `num_behind` is negative.

    normed, features: [T, H]
    first:            int64 [B]
    Returns the rows of both, [B, H] each.
    """
    rows = first + num_behind.clamp(min=0)
    return normed[rows], features[rows]


def rope_and_store(
    query_key: Tensor,
    value: Tensor,
    rotary: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    slot_mapping: Tensor,
    scales: KVScales = UNSCALED,
    layout: RotaryLayout = HALVES,
    product_scales: ProductScales | None = None,
) -> Tensor:
    """Rotate queries and keys to their positions, and store keys and values as `store_kv` does.

    query_key:    [T, num_heads + num_kv_heads, head_dim], queries first; or in parts that still
                  have to be summed, [P, T, num_heads + num_kv_heads, head_dim]
    value:        [T, num_kv_heads, head_dim], or in as many parts
    rotary:       [T, 2, 1, head_dim], cosine and signed sine (its first half negative) at the
                  tokens' positions
    layout:       how the dimensions of query_key's heads are ordered
    product_scales: scales of query_key and value, as one product [T, all heads · head_dim]
    Returns the rotated queries [T, num_heads, head_dim], of rotary's dtype. The rotation is that of
    Su et al. 2021 in the halves layout: dimension i rotates with dimension i + head_dim / 2.
    """
    if query_key.dim() == 4:
        query_key, value = _summed_heads(query_key, value, product_scales, rotary.dtype)
    rotated = rotate(query_key, rotary, layout)
    num_heads = query_key.shape[1] - value.shape[1]
    store_kv(rotated[:, num_heads:], value, key_cache, value_cache, slot_mapping, scales)
    return rotated[:, :num_heads]


def rotate(heads: Tensor, rotary: Tensor, layout: RotaryLayout = HALVES) -> Tensor:
    """Heads [T, heads, head_dim], rotated to their positions like queries in `rope_and_store`."""
    heads = layout.in_order(heads)
    return torch.addcmul(
        heads * rotary[:, 0], heads.roll(heads.shape[-1] // 2, dims=-1), rotary[:, 1]
    )


def _summed_heads(
    query_key: Tensor, value: Tensor, scales: ProductScales | None, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """The summed and scaled heads, from their parts."""
    if len(value) == 1 and scales is None:
        return query_key[0], value[0]
    heads = torch.cat((query_key, value), 2).sum(0)
    heads = scaled(heads.flatten(1), scales).view(heads.shape).to(dtype)
    return heads[:, : query_key.shape[2]], heads[:, query_key.shape[2] :]


def store_kv(
    key: Tensor,
    value: Tensor,
    key_cache: Tensor,
    value_cache: Tensor,
    slot_mapping: Tensor,
    scales: KVScales = UNSCALED,
) -> None:
    """Write the keys and values of one layer to their slots of the paged cache.

    key, value:             [T, num_kv_heads, head_dim]
    key_cache, value_cache: [num_pages, page_size, num_kv_heads, head_dim], contiguous; written in
                            place
    slot_mapping:           int64 [T], page · page_size + offset, distinct; a token with -1 is not
                            stored
    scales:                 the scales of float8 caches
    """
    if bool((slot_mapping < 0).any()):
        stored = slot_mapping >= 0
        key, value, slot_mapping = key[stored], value[stored], slot_mapping[stored]
    for tensor, scale, memory in (
        (key, scales.key, key_cache),
        (value, scales.value, value_cache),
    ):
        memory.view(-1, *memory.shape[2:])[slot_mapping] = cached(tensor, scale, memory.dtype)
