"""Owns the way of an iteration's results to the host: pinned memory in a ring, one event for each iteration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from specguide.batch import StepOutput


@dataclass(frozen=True, eq=False)
class PendingOutput:
    """The output of an iteration that may still run. To be read before its place in the ring comes round again."""

    tokens: Tensor
    num_accepted: Tensor
    rows: Sequence[int]
    done: torch.cuda.Event | None

    def result(self) -> StepOutput:
        """Waits for the iteration. Raises torch's error where the device failed."""
        if self.done is not None:
            self.done.synchronize()
        rows = list(self.rows)
        return StepOutput(tokens=self.tokens[rows], num_tokens=self.num_accepted[rows] + 1)


class ResultRing:
    """Copies results to the host in the order of `stream`; without one they are on the host already.

    depth: iterations that may be under way at once
    """

    def __init__(self, depth: int, max_batch_size: int, num_nodes: int, stream: torch.cuda.Stream | None) -> None:
        self._stream, self._next = stream, 0
        self._places = [(torch.zeros(max_batch_size * num_nodes, dtype=torch.int32, pin_memory=True),
                         torch.zeros(max_batch_size, dtype=torch.int32, pin_memory=True), torch.cuda.Event())
                        for _ in range(depth if stream else 0)]

    def put(self, tokens: Tensor, num_accepted: Tensor, rows: Sequence[int]) -> PendingOutput:
        """tokens int32 [n, N] and num_accepted int32 [n], of which `rows` are the batch's, in order."""
        if self._stream is None:
            return PendingOutput(tokens, num_accepted, rows, None)
        host_tokens, host_num_accepted, done = self._places[self._next]
        self._next = (self._next + 1) % len(self._places)
        host_tokens = host_tokens[:tokens.numel()].view(tokens.shape)
        host_tokens.copy_(tokens, non_blocking=True)
        host_num_accepted[:len(num_accepted)].copy_(num_accepted, non_blocking=True)
        done.record(self._stream)
        return PendingOutput(host_tokens, host_num_accepted, rows, done)
