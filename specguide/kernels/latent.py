"""Owns the plain-torch twin of the kernel that stores the keys of latent attention."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from specguide.kernels.pointwise import rms_norm
from specguide.kernels.rotary_layout import RotaryLayout


class LatentQueries(NamedTuple):
    """The two parts of the queries, before they are rotated.

    latent: [T, num_heads, rank], the part that is compared with latents
    turned: [T, num_heads, rope_dim], the part that has positions
    """

    latent: Tensor
    turned: Tensor


class LatentNorm(NamedTuple):
    """The norm of latents: weight [rank], and what is added to the mean square."""

    weight: Tensor
    eps: float


def rope_and_store_latents(
    keys: Tensor,
    queries: LatentQueries,
    norm: LatentNorm,
    rotary: Tensor,
    key_cache: Tensor,
    slot_mapping: Tensor,
    layout: RotaryLayout,
) -> Tensor:
    """Norm the latents, rotate queries and keys to their positions, and store the keys, one for all
    heads.

    keys:         [T, rank + rope_dim], latents, then the part that has positions
    rotary:       [T, 2, 1, rope_dim], see `rope_and_store`
    key_cache:    [num_pages, page_size, 1, rank + rope_dim], contiguous; written in place
    slot_mapping: int64 [T], page · page_size + offset, distinct; a token with -1 is not stored
    layout:       how the dimensions that rotate are ordered; all of rope_dim rotate
    Returns the queries [T, num_heads, rank + rope_dim].
    """
    rank = len(norm.weight)
    heads = layout.in_order(torch.cat((queries.turned, keys[:, None, rank:]), 1))
    turned = torch.addcmul(
        heads * rotary[:, 0], heads.roll(heads.shape[-1] // 2, dims=-1), rotary[:, 1]
    )
    latents = rms_norm(keys[:, :rank], norm.weight, norm.eps)
    stored = torch.cat((latents, turned[:, -1]), 1).to(key_cache.dtype)
    is_stored = slot_mapping >= 0
    key_cache.flatten(0, 2)[slot_mapping[is_stored]] = stored[is_stored]
    return torch.cat((queries.latent, turned[:, :-1]), 2)
