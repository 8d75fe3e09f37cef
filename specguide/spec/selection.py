"""Owns what a step makes of a batch: its tensors, and the snapshot for the grammar callbacks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

from specguide.batch import Batch, GuideSnapshot
from specguide.request import Request
from specguide.sampling import SamplingTensors


class SamplingKind(IntEnum):
    """What the requests of a batch ask of the choice of tokens; each kind does all that those before it do."""

    GREEDY = 0
    SAMPLED = 1
    ADJUSTED = 2
    SCORED = 3

    @classmethod
    def of(cls, request: Request) -> SamplingKind:
        """The least that does for one request."""
        if request.params.logprobs is not None:
            return cls.SCORED
        if request.adjustment is not None:
            return cls.ADJUSTED
        return cls.SAMPLED if request.params.temperature else cls.GREEDY


@dataclass(frozen=True, eq=False)
class Sampling:
    """How an iteration chooses tokens: its kind, and which sampling parameters any of the requests uses."""

    kind: SamplingKind
    used: SamplingTensors


class Selection:
    """The slots and sampling parameters of a batch on the device, kept while the batch stays the same."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._requests: tuple[Request, ...] = ()
        self._tensors: tuple[Tensor, Sampling] | None = None

    def of(self, batch: Batch) -> tuple[Tensor, Sampling]:
        """Slots int64 [B], and how the requests' tokens are chosen."""
        if self._tensors is None or batch.requests != self._requests:
            self._requests = batch.requests
            used = SamplingTensors.from_params([request.params for request in batch.requests],
                                               [request.seed for request in batch.requests], self._device)
            kind = max(SamplingKind.of(request) for request in batch.requests)
            self._tensors = torch.tensor(batch.slots, device=self._device), Sampling(kind, used)
        return self._tensors


def num_graph_slots(batch: Batch, max_batch_size: int) -> int:
    """Slots of the graph that runs the batch, 0 and on: a power of two of them, or all."""
    return min(1 << max(batch.slots).bit_length(), max_batch_size)


def graph_sizes(max_batch_size: int) -> list[int]:
    """All that `num_graph_slots` can be, largest first, so that smaller graphs find its memory in their pool."""
    return [max_batch_size, *(1 << power for power in reversed(range((max_batch_size - 1).bit_length())))]


def guide_snapshot(batch: Batch) -> GuideSnapshot:
    """A prefill starts its slots' walks, unless it is run again because their first rows were late."""
    def starts(request: Request) -> bool:
        return batch.is_prefill and request.metrics.num_held == 0

    return GuideSnapshot(
        started=tuple((request.slot, request.grammar.matcher() if request.grammar else None)
                      for request in batch.requests if starts(request)),
        continued=tuple(request.slot for request in batch.requests if not starts(request)))
