"""Muon for the hidden matrices and AdamW for the rest, over fp32 master weights of the model.

Muon: K. Jordan et al., 2024, "Muon: an optimizer for hidden layers in neural networks" (momentum,
      orthogonalized by a
Newton-Schulz iteration). Matrices of one shape are orthogonalized as one batch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def training_dtype(device: torch.device) -> torch.dtype:
    """Which products are fast there."""
    return torch.bfloat16 if device.type == "cuda" else torch.float32


def orthogonalize(update: Tensor, steps: int = 5) -> Tensor:
    """Nearest semi-orthogonal matrices of a batch [n, rows, columns], approximately; in bf16 on a
    GPU."""
    a, b, c = COEFFICIENTS
    x = update.to(training_dtype(update.device))
    flip = x.shape[1] > x.shape[2]
    x = x.mT if flip else x
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if flip else x


class MasterOptimizer:
    """Steps fp32 master copies and writes them back into the model's own parameters.

    Learning rates are those of AdamW and Muon at scale 1; `step` takes the schedule's scale.
    """

    def __init__(
        self, model: nn.Module, adam_lr: float, muon_lr: float, weight_decay: float = 0.01
    ) -> None:
        self.params: list[Tensor] = [p for p in model.parameters() if p.requires_grad]
        self.master = [p.detach().float().clone() for p in self.params]
        hidden = {
            id(p) for name, p in model.named_parameters() if p.ndim == 2 and "layers." in name
        }
        self.muon_lr, self.adam_lr, self.weight_decay = muon_lr, adam_lr, weight_decay
        self.adam_index = [i for i, p in enumerate(self.params) if id(p) not in hidden]
        self.groups: dict[tuple[int, ...], list[int]] = {}
        for i, p in enumerate(self.params):
            if id(p) in hidden:
                self.groups.setdefault(tuple(p.shape), []).append(i)
        self.momentum = {
            shape: torch.zeros(len(rows), *shape, device=self.params[0].device)
            for shape, rows in self.groups.items()
        }
        self.adam = torch.optim.AdamW(
            [self.master[i] for i in self.adam_index],
            lr=adam_lr,
            betas=(0.9, 0.98),
            eps=1e-10,
            weight_decay=0.0,
            fused=self.params[0].is_cuda,
        )

    @torch.no_grad()
    def step(self, scale: float, clip: float = 1.0) -> Tensor:
        """One update from the parameters' gradients, which it clears. Returns the gradient norm (a
        device scalar)."""
        grads = [p.grad.float() for p in self.params]  # type: ignore[union-attr]
        norm = torch.stack(torch._foreach_norm(grads)).norm()
        factor = (clip / (norm + 1e-6)).clamp(max=1.0)
        for group in self.adam.param_groups:
            group["lr"] = self.adam_lr * scale
        for i in self.adam_index:
            self.master[i].grad = grads[i] * factor
        self.adam.step()
        for shape, rows in self.groups.items():
            self._muon(shape, rows, torch.stack([grads[i] for i in rows]), scale)
        torch._foreach_copy_(self.params, self.master)
        for p in self.params:
            p.grad = None
        return norm

    def _muon(self, shape: tuple[int, ...], rows: list[int], grad: Tensor, scale: float) -> None:
        momentum = self.momentum[shape]
        momentum.lerp_(grad, 0.05)
        update = orthogonalize(grad.lerp(momentum, 0.95)).float()
        rate = self.muon_lr * scale * max(1.0, shape[0] / shape[1]) ** 0.5
        targets = [self.master[i] for i in rows]
        torch._foreach_mul_(targets, 1.0 - self.muon_lr * scale * self.weight_decay)
        torch._foreach_add_(targets, list(update.unbind(0)), alpha=-rate)

    def state_dict(self) -> dict[str, Any]:
        return {"master": self.master, "momentum": self.momentum, "adam": self.adam.state_dict()}

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any], fresh: bool = False) -> None:
        """Loads master weights, and (unless `fresh`) the running averages."""
        torch._foreach_copy_(self.master, state["master"])
        torch._foreach_copy_(self.params, self.master)
        if not fresh:
            for shape, momentum in state["momentum"].items():
                self.momentum[shape].copy_(momentum)
            self.adam.load_state_dict(state["adam"])
