"""Owns the softmax of long rows in place, on a GPU: two passes, arithmetic in float32."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 4096


@triton.jit
def _scaled_softmax(logits, scale, log_sums, stride, width, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    row = tl.program_id(0).to(tl.int64)
    place = logits + row * stride
    lanes = tl.arange(0, BLOCK)
    highest = tl.full([BLOCK], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, width, BLOCK):
        inside = start + lanes < width
        x = tl.load(place + start + lanes, mask=inside, other=-1e30).to(tl.float32)
        higher = tl.maximum(highest, x)
        total = total * tl.exp(highest - higher) + tl.exp(x - higher)
        highest = higher
    top = tl.max(highest, 0)
    log_sum = top + tl.log(tl.sum(total * tl.exp(highest - top), 0))
    tl.store(log_sums + row, log_sum)
    factor = tl.load(scale + row)
    for start in range(0, width, BLOCK):
        inside = start + lanes < width
        x = tl.load(place + start + lanes, mask=inside, other=-1e30).to(tl.float32)
        tl.store(place + start + lanes, (factor * tl.exp(x - log_sum)), mask=inside)


def launch(logits: Tensor, scale: Tensor) -> Tensor:
    """logits [n, V] become scale [n] · softmax; returns their log-sum-exp, float32 [n]."""
    log_sums = torch.empty(len(logits), dtype=torch.float32, device=logits.device)
    _scaled_softmax[(len(logits),)](
        logits, scale, log_sums, logits.stride(0), logits.shape[1], BLOCK=_BLOCK, num_warps=8
    )
    return log_sums
