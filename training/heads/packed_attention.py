"""Causal attention inside each packed document, registered with transformers under the name
"packed"."""

from __future__ import annotations

import inspect
from typing import Any

import torch
import torch.nn.functional as F
from torch.nn.attention.varlen import varlen_attn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

NAME = "packed"
_CAUSAL: dict[str, Any] = (
    {"window_size": (-1, 0)}
    if "window_size" in inspect.signature(varlen_attn).parameters
    else {"is_causal": True}
)


def packed_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,
    scaling: float,
    dropout: float = 0.0,
    bounds: torch.Tensor | None = None,
    max_len: int = 0,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Attention over query [1, heads, tokens, head_dim] with documents given by `bounds` [documents
    + 1] (int32)."""
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    assert bounds is not None
    if query.is_cuda:
        q, k, v = (
            x[0].transpose(0, 1).to(torch.bfloat16).contiguous() for x in (query, key, value)
        )
        out = (
            varlen_attn(q, k, v, bounds, bounds, max_len, max_len, scale=scaling, **_CAUSAL)
            if _SCALES
            else varlen_attn(q, k, v, bounds, bounds, max_len, max_len, **_CAUSAL)
        )
        return out.unsqueeze(0), None  # type: ignore[union-attr]
    document = torch.bucketize(torch.arange(query.shape[2]), bounds[1:].long(), right=True)
    same = (document[:, None] == document[None, :]).tril()
    out = F.scaled_dot_product_attention(query, key, value, attn_mask=same, scale=scaling)
    return out.transpose(1, 2), None


_SCALES = "scale" in inspect.signature(varlen_attn).parameters
ALL_ATTENTION_FUNCTIONS.register(NAME, packed_attention)
