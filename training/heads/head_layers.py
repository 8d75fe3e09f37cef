"""Owns the shape of a draft head and the layers that heads are built from, named as in Llama's
checkpoints.

B: rows, N: positions.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class HeadConfig:
    """Shape of a head. `aux_layers`: the target layers whose *input* is tapped (n: output of the
    last of n layers)."""

    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    draft_vocab_size: int
    aux_layers: tuple[int, ...]
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    max_position_embeddings: int = 2048
    bos_token_id: int | None = None
    eos_token_id: int | None = None


class Attention(nn.Module):
    """Grouped-query attention with rotary positions; queries, keys and values read `input_size`
    numbers."""

    frequencies: Tensor

    def __init__(self, c: HeadConfig, input_size: int, *, bias: bool) -> None:
        super().__init__()
        self.head_dim, self.num_heads, self.num_kv_heads = (
            c.head_dim,
            c.num_attention_heads,
            c.num_key_value_heads,
        )
        self.q_proj = nn.Linear(input_size, c.num_attention_heads * c.head_dim, bias=bias)
        self.k_proj = nn.Linear(input_size, c.num_key_value_heads * c.head_dim, bias=bias)
        self.v_proj = nn.Linear(input_size, c.num_key_value_heads * c.head_dim, bias=bias)
        self.o_proj = nn.Linear(c.num_attention_heads * c.head_dim, c.hidden_size, bias=False)
        frequencies = c.rope_theta ** (
            -torch.arange(0, c.head_dim, 2, dtype=torch.float32) / c.head_dim
        )
        self.register_buffer("frequencies", frequencies, persistent=False)

    def rotate(self, x: Tensor, positions: Tensor) -> Tensor:
        """x [B, heads, N, head_dim] turned by its positions [B, N], halves paired as in Llama."""
        angles = (positions[:, None, :, None].float() * self.frequencies).repeat(1, 1, 1, 2)
        left, right = x.chunk(2, dim=-1)
        return x * angles.cos().to(x.dtype) + torch.cat((-right, left), dim=-1) * angles.sin().to(
            x.dtype
        )

    def split(self, x: Tensor) -> Tensor:
        """[B, N, heads * head_dim] → [B, heads, N, head_dim]."""
        return x.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

    def queries(self, x: Tensor, positions: Tensor) -> Tensor:
        return self.rotate(self.split(self.q_proj(x)), positions)

    def keys_values(self, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = (
            self.rotate(self.split(self.k_proj(x)), positions),
            self.split(self.v_proj(x)),
        )
        group = self.num_heads // self.num_kv_heads
        return keys.repeat_interleave(group, dim=1), values.repeat_interleave(group, dim=1)

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
        mixed = F.scaled_dot_product_attention(queries, keys, values, attn_mask=mask[:, None])
        return self.o_proj(mixed.transpose(1, 2).flatten(-2))


class MLP(nn.Module):
    """The gated SiLU block of Llama."""

    def __init__(self, c: HeadConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.up_proj = nn.Linear(c.hidden_size, c.intermediate_size, bias=False)
        self.down_proj = nn.Linear(c.intermediate_size, c.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
