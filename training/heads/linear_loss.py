"""Owns the cross-entropy behind an output matrix that is not trained: no logits are kept, and where
they are made they become their gradient in place.

N: rows, H: hidden size, V: vocabulary, k: wanted tokens of a row.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

_CHUNK = 4096  # rows whose logits exist at a time


def linear_loss(states: Tensor, output: Tensor, wanted: Tensor, shares: Tensor) -> Tensor:
    """Sum over rows and their wanted tokens of share · -log softmax(output · state)[token]; scalar
    float32, with a gradient for `states` alone.

    states: [N, H]; output: [V, H]; wanted: [N, k] int64 token ids; shares: [N, k] float32
    """
    loss: Tensor = _LinearLoss.apply(states, output, wanted, shares)
    return loss


class _LinearLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, states: Tensor, output: Tensor, wanted: Tensor, shares: Tensor
    ) -> Tensor:
        with torch.autocast(states.device.type, enabled=False):
            parts = [
                _chunk_loss(x.to(output.dtype), output, ids, share)
                for x, ids, share in zip(
                    states.split(_CHUNK), wanted.split(_CHUNK), shares.split(_CHUNK), strict=True
                )
            ]
        context.save_for_backward(torch.cat([gradient for _, gradient in parts]).to(states.dtype))
        return torch.stack([loss for loss, _ in parts]).sum()

    @staticmethod
    def backward(context: Any, *above: Tensor) -> tuple[Tensor, None, None, None]:
        (gradient,) = context.saved_tensors
        return gradient * above[0].to(gradient.dtype), None, None, None


def _chunk_loss(x: Tensor, output: Tensor, ids: Tensor, shares: Tensor) -> tuple[Tensor, Tensor]:
    """The loss of a chunk, and its gradient for x [n, H]."""
    logits, total = F.linear(x, output), shares.sum(-1)
    picked = logits.gather(1, ids).float()
    log_sums = scaled_softmax_(logits, total)
    loss = (total * log_sums).sum() - (shares * picked).sum()
    return loss, logits.scatter_add_(1, ids, -shares.to(logits.dtype)) @ output


def scaled_softmax_(logits: Tensor, scale: Tensor) -> Tensor:
    """Turn logits [n, V] into scale [n] · their softmax, in place; returns their log-sum-exp,
    float32 [n]."""
    if logits.is_cuda:
        from training.heads.softmax_kernel import launch

        return launch(logits, scale)
    log_sums = logits.float().logsumexp(-1)
    logits.copy_((logits.float() - log_sums[:, None]).exp() * scale[:, None])
    return log_sums
