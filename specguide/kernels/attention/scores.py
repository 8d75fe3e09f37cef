"""Owns softmax attention in plain torch over gathered keys: torch's own, or one that computes all
scores where these have a limit, which torch's does not know."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from specguide.kernels.attention.interface import AttentionForm

_MOST_ROWS = 256
"""Rows whose scores are held at a time."""


def attended(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, form: AttentionForm
) -> Tensor:
    """Attention: query [..., heads, R, D], keys and values [..., key heads, S, D or value dim] →
    [..., heads, R, value dim]; zeros for a row that sees no key.

    mask: bool [..., R, S], or what is added to the scores; None: row i sees keys 0 … i
    form: see AttentionForm; of it only the scales of queries and keys and the limit are read
    """
    scale = form.scale * form.scales.key
    if form.softcap is None:
        return scaled_dot_product_attention(
            query,
            keys,
            values,
            attn_mask=mask,
            is_causal=mask is None,
            scale=scale,
            enable_gqa=query.shape[-3] != keys.shape[-3],
        )
    if mask is None:
        mask = torch.ones(query.shape[-2], keys.shape[-2], dtype=torch.bool).tril()
        mask = mask.to(query.device)
    group = query.shape[-3] // keys.shape[-3]
    keys, values = (it.float().repeat_interleave(group, -3) for it in (keys, values))
    parts = [
        _limited(rows, keys, values, seen, scale, form.softcap)
        for rows, seen in zip(query.split(_MOST_ROWS, -2), mask.split(_MOST_ROWS, -2), strict=True)
    ]
    return torch.cat(parts, -2)


def _limited(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor, scale: float, limit: float
) -> Tensor:
    """Attention of some rows with as many heads as keys have, in float32; see `attended`."""
    scores = query.float() @ keys.transpose(-2, -1)
    scores = torch.tanh(scores * (scale / limit)) * limit
    if mask.dtype == torch.bool:
        scores.masked_fill_(~mask, float("-inf"))
    else:
        scores += mask
    sees_nothing = scores.amax(-1, keepdim=True) == float("-inf")
    weights = scores.softmax(-1).masked_fill_(sees_nothing, 0.0)
    return (weights @ values).to(query.dtype)
