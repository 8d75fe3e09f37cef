"""Owns how the tokens of a batch are chosen: the sampling kind of its requests, kept while the
batch stays the same."""

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
    """How much the requests of a batch ask of the choice of tokens. Each kind includes those before
    it."""

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
        """The least kind that serves one request."""
        if entry.sampling.is_scored:
            return cls.SCORED
        if entry.adjusted is not None:
            return cls.ADJUSTED
        return cls.SAMPLED if entry.sampling.temperature else cls.GREEDY


@dataclass(frozen=True, eq=False)
class Sampling:
    """How an iteration chooses tokens.

    kind:      the sampling kind
    used:      which sampling parameters any of the requests uses: those that are not None. Its
               values are not read; these are in the slot table
    processed: the logits processors to call, by their request's row in the batch; an iteration
               that calls any is not captured
    """

    kind: SamplingKind
    used: SamplingTensors
    processed: Mapping[int, RequestProcessors] = field(default_factory=dict)


@cache
def all_used(kind: SamplingKind, device: torch.device) -> Sampling:
    """Sampling for requests that may use any sampling parameter; for GREEDY they use none. Graphs
    may refer to it."""
    used = SamplingTensors.neutral(1, device)
    return Sampling(kind, SamplingTensors(seed=used.seed) if kind is SamplingKind.GREEDY else used)


class BatchSampling:
    """The slots of the running batch and how its tokens are chosen, kept while the batch stays the
    same; and the entry of each slot."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._entries: dict[int, SlotEntry] = {}
        self._batch: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
        self._sampling: Sampling | None = None
        self._slots: Tensor | None = None

    @property
    def slots(self) -> Tensor:
        """The slots of the batch that was last given to `of`, int64 [B]."""
        if self._slots is None:
            self._slots = on_device(self._batch[1], self._device)
        return self._slots

    def of(self, batch: Batch, processed: Mapping[int, RequestProcessors]) -> Sampling:
        """How the tokens of a batch are chosen."""
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
        if self._device.type == "cuda":  # one kernel for all, whatever parameters are left out
            return all_used(kind, self._device)
        values = [entry.sampling for entry in entries]
        seeds = [each.seed for each in values]
        return Sampling(kind, SamplingTensors.from_params(values, seeds, "cpu"))


def graph_sizes(max_batch_size: int) -> list[int]:
    """All values that `num_graph_slots` can have, largest first, so that smaller graphs reuse the
    memory of the largest one from their common pool."""
    return [
        max_batch_size,
        *(1 << power for power in reversed(range((max_batch_size - 1).bit_length()))),
    ]
