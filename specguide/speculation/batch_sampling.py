"""Owns what a step knows of a batch: its slots, and how their tokens are chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cache

import torch
from torch import Tensor

from specguide.batch import Batch, SlotEntry
from specguide.kernels import on_device
from specguide.sampling import RequestProcessors, SamplingTensors


class SamplingKind(IntEnum):
    """What the requests of a batch ask of the choice of tokens; each kind does all that those
    before it do."""

    GREEDY = 0
    SAMPLED = 1
    ADJUSTED = 2
    SCORED = 3

    @property
    def in_few_graphs(self) -> SamplingKind:
        """The kind that serves in its place where an iteration is captured for two kinds only."""
        return SamplingKind.SAMPLED if self <= SamplingKind.SAMPLED else SamplingKind.SCORED

    @classmethod
    def of(cls, entry: SlotEntry) -> SamplingKind:
        """The least that does for one request."""
        if entry.sampling.is_scored:
            return cls.SCORED
        if entry.adjusted is not None:
            return cls.ADJUSTED
        return cls.SAMPLED if entry.sampling.temperature else cls.GREEDY


@dataclass(frozen=True, eq=False)
class Sampling:
    """How an iteration chooses tokens: its kind, and which sampling parameters any of the requests
    uses.

    used:      read for what of it is None alone; the values are the slots'
    processed: logits processors that are called, by their request's place in the batch; what calls
               them is not captured
    """

    kind: SamplingKind
    used: SamplingTensors
    processed: Mapping[int, RequestProcessors] = field(default_factory=dict)


@cache
def all_used(kind: SamplingKind, device: torch.device) -> Sampling:
    """Sampling for requests that may use any sampling parameter, unless all of them are greedy.
    Graphs may refer to it."""
    used = SamplingTensors.neutral(1, device)
    return Sampling(kind, SamplingTensors(seed=used.seed) if kind is SamplingKind.GREEDY else used)


class BatchSampling:
    """Slots of the batch that runs and how its requests' tokens are chosen, kept while the batch
    stays the same; and what has entered each slot."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._entries: dict[int, SlotEntry] = {}
        self._batch: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
        self._sampling: Sampling | None = None
        self._slots: Tensor | None = None

    @property
    def slots(self) -> Tensor:
        """Int64 [B], of the batch that `of` was asked about last."""
        if self._slots is None:
            self._slots = on_device(self._batch[1], self._device)
        return self._slots

    def of(self, batch: Batch, processed: Mapping[int, RequestProcessors]) -> Sampling:
        """How the requests' tokens are chosen."""
        self._entries.update(zip(batch.slots, batch.entries, strict=False))
        self._entries.update({batch.slots[start.row]: start.entry for start in batch.starts})
        if self._sampling is None or (batch.request_ids, batch.slots) != self._batch:
            self._batch = batch.request_ids, batch.slots
            self._sampling = self._sampling_of(batch.slots)
            self._slots = None
        sampling = self._sampling
        return replace(sampling, processed=processed) if processed else sampling

    def _sampling_of(self, slots: Sequence[int]) -> Sampling:
        entries = [self._entries[slot] for slot in slots]
        kind = max(SamplingKind.of(entry) for entry in entries)
        if self._device.type == "cuda":  # no kernels of their own for what some requests leave out
            return all_used(kind, self._device)
        values = [entry.sampling for entry in entries]
        seeds = [each.seed for each in values]
        return Sampling(kind, SamplingTensors.from_params(values, seeds, "cpu"))


def graph_sizes(max_batch_size: int) -> list[int]:
    """All that `num_graph_slots` can be, largest first, so that smaller graphs find its memory in
    their pool."""
    return [
        max_batch_size,
        *(1 << power for power in reversed(range((max_batch_size - 1).bit_length()))),
    ]
