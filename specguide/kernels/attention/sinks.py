"""Owns attention sinks in torch's attention: each sink becomes one more key, of zeros, whose score
the mask sets."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad


def with_sinks(mask: Tensor, sinks: Tensor) -> Tensor:
    """The mask that is added to the scores of S keys and of one more key, which stands for the
    sinks.

    mask:  bool [..., R, S], the same for all heads
    sinks: [heads, R]
    Returns [..., heads, R, S + 1] of the sinks' dtype.
    """
    scores = torch.zeros(mask.shape, dtype=sinks.dtype, device=sinks.device)
    scores.masked_fill_(~mask, float("-inf"))
    shape = (*mask.shape[:-3], *sinks.shape)
    return torch.cat(
        [scores.expand(*shape, -1), sinks.expand(shape)[..., None].to(scores.dtype)], dim=-1
    )


def fitting_keys(mask: Tensor | None, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values [..., S, head_dim], with one more row of zeros if the mask has a column for
    sinks."""
    if mask is None or mask.shape[-1] == keys.shape[-2]:
        return keys, values
    return pad(keys, (0, 0, 0, 1)), pad(values, (0, 0, 0, 1))
