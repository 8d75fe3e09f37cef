"""Owns attention within the windows and images of a packed sequence, for encoders of transformers
that pass the bounds of these: one call for all, where that library's own would be one for each."""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

NAME: Final = "specguide_flash"
"""Encoders of transformers pass bounds to implementations with "flash" in their name."""


def register() -> None:
    """Let transformers know the implementation."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, packed_attention)


def packed_attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: None,
    *,
    scaling: float,
    cu_seq_lens_q: Tensor,
    max_length_q: int,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention in both directions within each part of a sequence of T tokens, as transformers
    calls it.

    query, key, value: [1, heads, T, head_dim]
    cu_seq_lens_q:     int32 [parts + 1], part p has the tokens from entry p to entry p + 1 - 1
    max_length_q:      tokens of the longest part
    Returns [1, T, heads, head_dim], and no weights.
    """
    if query.is_cuda and query.dtype != torch.float32:
        heads = [tensor[0].transpose(0, 1) for tensor in (query, key, value)]
        bounds = [cu_seq_lens_q.int()] * 2
        lens = [int(max_length_q)] * 2
        output, *_rest = torch.ops.aten._flash_attention_forward(
            *heads, *bounds, *lens, 0.0, False, False, scale=scaling
        )
        return output[None], None
    lens = cu_seq_lens_q.diff().tolist()
    parts = zip(*(tensor[0].split(lens, dim=1) for tensor in (query, key, value)), strict=True)
    made = [scaled_dot_product_attention(q, k, v, scale=scaling) for q, k, v in parts]
    return torch.cat(made, dim=1).transpose(0, 1)[None], None
