"""The EAGLE3 head as the paper writes it: no cache, every step from the start."""

from __future__ import annotations

from typing import Any

import torch
from eagle3_heads import Weights
from torch import Tensor


class SlowHead:
    """The head over a whole sequence at once: no cache, no fused weights, every step from the
    start."""

    def __init__(
        self, config: dict[str, Any], weights: Weights, embeddings: Tensor, inv_freq: Tensor
    ) -> None:
        self.config, self.weights, self.embeddings = config, weights, embeddings
        self.inv_freq = inv_freq
        self.window = config.get("sliding_window")

    def norm(self, name: str, x: Tensor) -> Tensor:
        mean_square = x.square().mean(-1, keepdim=True)
        return (
            x / (mean_square + self.config["rms_norm_eps"]).sqrt() * self.weights[f"{name}.weight"]
        )

    def linear(self, name: str, x: Tensor) -> Tensor:
        return x @ self.weights[f"{name}.weight"].T

    def heads(self, name: str, x: Tensor) -> Tensor:
        return self.linear(f"midlayer.self_attn.{name}_proj", x).view(
            len(x), -1, self.config["head_dim"]
        )

    def rotate(self, x: Tensor) -> Tensor:
        """Each pair (i, i + d/2) turns by its angle, written as a product of complex numbers."""
        angles = torch.arange(len(x))[:, None, None] * self.inv_freq
        half = x.shape[-1] // 2
        turned = torch.complex(x[..., :half], x[..., half:]) * torch.polar(
            torch.ones_like(angles), angles
        )
        return torch.cat((turned.real, turned.imag), dim=-1)

    def attend(self, x: Tensor) -> Tensor:
        query, key, value = (
            self.rotate(self.heads("q", x)),
            self.rotate(self.heads("k", x)),
            self.heads("v", x),
        )
        group = query.shape[1] // key.shape[1]
        out = []
        for head in range(query.shape[1]):
            scores = query[:, head] @ key[:, head // group].T / self.config["head_dim"] ** 0.5
            hidden = torch.ones_like(scores).triu(1).bool()
            if self.window is not None:
                hidden |= torch.ones_like(scores).tril(-self.window).bool()
            out.append(
                scores.masked_fill(hidden, float("-inf")).softmax(-1) @ value[:, head // group]
            )
        return self.linear("midlayer.self_attn.o_proj", torch.cat(out, dim=-1))

    def forward(self, input_ids: Tensor, features: Tensor) -> Tensor:
        normed = self.norm("midlayer.hidden_norm", features)
        residual = normed if self.config.get("norm_before_residual") else features
        x = torch.cat(
            (self.norm("midlayer.input_layernorm", self.embeddings[input_ids]), normed), dim=-1
        )
        hidden = residual + self.attend(x)
        x = self.norm("midlayer.post_attention_layernorm", hidden)
        gate, up = self.linear("midlayer.mlp.gate_proj", x), self.linear("midlayer.mlp.up_proj", x)
        return hidden + self.linear("midlayer.mlp.down_proj", gate * gate.sigmoid() * up)

    def logits(self, hidden: Tensor) -> Tensor:
        return self.linear("lm_head", self.norm("norm", hidden))
