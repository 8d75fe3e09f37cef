"""Owns the native operations for a CPU. Each does in one call what its torch twin does in many;
with few tokens these calls take longer than the work.

They are for float32 only and record no gradients: everything else goes to the twin.
"""

from __future__ import annotations

import torch
from torch import Tensor

from specguide.kernels import pointwise, reference
from specguide.kernels.bitmask_rows import BitmaskRows
from specguide.kernels.kv_scales import UNSCALED, KVScales
from specguide.kernels.peers import Peers
from specguide.kernels.pointwise import ProductScales
from specguide.kernels.rotary_layout import HALVES, RotaryLayout
from specguide.kernels.sampling_tensors import SamplingTensors
from specguide.native import choose_tokens, norm_rows, rotate_and_store_rows

_MOST_NUMBERS = 1 << 18
"""Maximum numbers in a tensor. With more, torch's threads and wide vectors make up for its
calls."""


def _is_ours(*tensors: Tensor) -> bool:
    """Whether these tensors are small, contiguous, float32 and need no gradients."""
    if torch.is_grad_enabled():
        return False
    return all(
        tensor.dtype is torch.float32 and tensor.is_contiguous() and tensor.numel() <= _MOST_NUMBERS
        for tensor in tensors
    )


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """See `pointwise.rms_norm`."""
    if not _is_ours(x, weight):
        return pointwise.rms_norm(x, weight, eps)
    output = torch.empty_like(x)
    _norm(output, x, weight, eps)
    return output


def norm_into(
    output: Tensor, x: Tensor, weight: Tensor, eps: float, row_ids: Tensor | None = None
) -> None:
    """See `pointwise.norm_into`."""
    x = x if row_ids is None else x.index_select(0, row_ids)
    if _is_ours(x, weight) and output.dtype is torch.float32 and output.stride(-1) == 1:
        _norm(output, x, weight, eps)
    else:
        pointwise.norm_into(output, x, weight, eps)


def _norm(output: Tensor, x: Tensor, weight: Tensor, eps: float) -> None:
    size = x.shape[-1]
    norm_rows(
        input=x.data_ptr(),
        residual=0,
        weight=weight.data_ptr(),
        total=0,
        output=output.data_ptr(),
        rows=x.numel() // size,
        size=size,
        weight_rows=weight.numel() // size,
        output_stride=output.stride(-2) if output.dim() > 1 else size,
        eps=eps,
    )


def add_rms_norm(
    residual: Tensor,
    parts: Tensor,
    weight: Tensor,
    eps: float,
    scales: ProductScales | None = None,
    peers: Peers | None = None,
) -> tuple[Tensor, Tensor]:
    """See `pointwise.add_rms_norm`."""
    is_one = len(parts) == 1 and scales is None and peers is None
    if not is_one or not _is_ours(residual, parts, weight):
        return pointwise.add_rms_norm(residual, parts, weight, eps, scales, peers)
    total, normed = torch.empty_like(residual), torch.empty_like(residual)
    rows, size = residual.shape
    norm_rows(
        input=parts.data_ptr(),
        residual=residual.data_ptr(),
        weight=weight.data_ptr(),
        total=total.data_ptr(),
        output=normed.data_ptr(),
        rows=rows,
        size=size,
        weight_rows=1,
        output_stride=size,
        eps=eps,
    )
    return total, normed


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
    """See `pointwise.rope_and_store`."""
    if query_key.dim() == 4 and len(query_key) == 1 and product_scales is None:
        query_key, value = query_key[0], value[0]
    if not _is_plain(query_key, value, rotary, key_cache, slot_mapping, layout):
        cache = key_cache, value_cache, slot_mapping
        forms = scales, layout, product_scales
        return pointwise.rope_and_store(query_key, value, rotary, *cache, *forms)
    num_tokens, num_all, head_dim = query_key.shape
    num_kv_heads = value.shape[1]
    num_heads = num_all - num_kv_heads
    query = torch.empty((num_tokens, num_heads, head_dim), dtype=torch.float32)
    rotate_and_store_rows(
        query_key=query_key.data_ptr(),
        value=value.data_ptr(),
        rotary=rotary.data_ptr(),
        slot_mapping=slot_mapping.data_ptr(),
        key_cache=key_cache.data_ptr(),
        value_cache=value_cache.data_ptr(),
        query=query.data_ptr(),
        rows=num_tokens,
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        query_key_stride=query_key.stride(0),
        value_stride=value.stride(0),
    )
    return query


def _is_plain(
    query_key: Tensor,
    value: Tensor,
    rotary: Tensor,
    key_cache: Tensor,
    slot_mapping: Tensor,
    layout: RotaryLayout,
) -> bool:
    """Whether heads are in the halves layout and contiguous in each token's row, and the cache
    too."""
    if query_key.dim() != 3 or key_cache.dtype is not torch.float32 or layout != HALVES:
        return False
    head_dim = query_key.shape[-1]
    return (
        _is_ours(rotary)
        and query_key.dtype is value.dtype is torch.float32
        and query_key.stride()[1:] == value.stride()[1:] == (head_dim, 1)
        and slot_mapping.dtype is torch.int64
        and slot_mapping.is_contiguous()
        and query_key.numel() <= _MOST_NUMBERS
    )


def masked_argmax(
    logits: Tensor, rows: BitmaskRows | None, target_ids: Tensor | None = None
) -> Tensor:
    """See `reference.masked_argmax`."""
    if logits.dtype is not torch.float32 or not all(
        tensor.is_contiguous() for tensor in (logits, *(rows or ()))
    ):
        return reference.masked_argmax(logits, rows, target_ids)
    if target_ids is not None:
        target_ids = target_ids.to(torch.int32).contiguous()
    bitmask, guided, ids = (None, None, None) if rows is None else rows
    if guided is not None and guided.element_size() > 1:
        guided = guided != 0
    tokens = torch.empty(len(logits), dtype=torch.int32)
    choose_tokens(
        logits=logits.data_ptr(),
        bitmask=0 if bitmask is None else bitmask.data_ptr(),
        guided=0 if guided is None else guided.data_ptr(),
        row_ids=0 if ids is None else ids.data_ptr(),
        target_ids=0 if target_ids is None else target_ids.data_ptr(),
        tokens=tokens.data_ptr(),
        rows=len(logits),
        size=logits.shape[1],
        words=0 if bitmask is None else bitmask.shape[1],
    )
    return tokens


def masked_sample(
    logits: Tensor, rows: BitmaskRows | None, params: SamplingTensors, positions: Tensor
) -> Tensor:
    """See `reference.masked_sample`; native where all rows are greedy."""
    if params.temperature is None:
        return masked_argmax(logits, rows)
    return reference.masked_sample(logits, rows, params, positions)
