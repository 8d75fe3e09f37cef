"""Owns Attention: causal self-attention whose keys and values live in pages."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from specguide.kernels import rope_and_store
from specguide.kernels.attention import ForwardContext
from specguide.layers.linear import Linear
from specguide.layers.norm import RmsNorm


@dataclass(frozen=True, eq=False)
class Attention:
    """Grouped-query attention with rotary positions.

    qkv:            input → (num_heads + 2 · num_kv_heads) · head_dim; queries, then keys, then
                    values
    out:            num_heads · head_dim → hidden
    qk_norm:        of the query and key heads, weight [num_heads + num_kv_heads, head_dim]; None:
                    no norm
    sliding_window: a token sees itself and the sliding_window - 1 tokens before it; None: all
                    before it
    """

    qkv: Linear
    out: Linear
    num_heads: int
    num_kv_heads: int
    head_dim: int
    qk_norm: RmsNorm | None = None
    sliding_window: int | None = None

    def __call__(
        self,
        x: Tensor,
        rotary: Tensor,
        context: ForwardContext,
        key_cache: Tensor,
        value_cache: Tensor,
    ) -> Tensor:
        """x [T, input] → parts [P, T, hidden], as `Linear.parts` gives them; stores the keys and
        values of x first.

        rotary [T, 2, 1, head_dim]; the caches are [num_pages, page_size, num_kv_heads, head_dim].
        """
        num_rotated = self.num_heads + self.num_kv_heads
        heads = self.qkv(x).view(x.shape[0], num_rotated + self.num_kv_heads, self.head_dim)
        query_key = heads[:, :num_rotated]
        if self.qk_norm is not None:
            query_key = self.qk_norm(query_key)
        query = rope_and_store(
            query_key, heads[:, num_rotated:], rotary, key_cache, value_cache, context.slot_mapping
        )
        attended = context.plan.run(
            query,
            key_cache,
            value_cache,
            scale=self.head_dim**-0.5,
            sliding_window=self.sliding_window,
        )
        return self.out.parts(attended.reshape(x.shape[0], self.num_heads * self.head_dim))


def empty_attention(
    input_size: int,
    hidden_size: int,
    num_heads: int,
    num_kv_heads: int,
    head_dim: int,
    *,
    qkv_bias: bool,
    out_bias: bool,
    qk_norm: bool,
    norm_eps: float,
    sliding_window: int | None,
    device: torch.device,
    dtype: torch.dtype,
) -> Attention:
    """Uninitialised memory, to be filled from a checkpoint."""
    num_normed, num_heads_in_all = num_heads + num_kv_heads, num_heads + 2 * num_kv_heads
    norm = (
        RmsNorm.empty(num_normed, head_dim, eps=norm_eps, device=device, dtype=dtype)
        if qk_norm
        else None
    )
    return Attention(
        qkv=Linear.empty(
            num_heads_in_all * head_dim, input_size, bias=qkv_bias, device=device, dtype=dtype
        ),
        out=Linear.empty(
            hidden_size, num_heads * head_dim, bias=out_bias, device=device, dtype=dtype
        ),
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
        qk_norm=norm,
        sliding_window=sliding_window,
    )
