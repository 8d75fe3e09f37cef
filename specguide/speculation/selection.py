"""Owns what a step makes of a batch: its tensors, and the snapshot for the grammar callbacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cache
from typing import Any

import torch
from torch import Tensor

from specguide.batch import Batch, GuideSnapshot, WalkStart
from specguide.guided.matcher import FailedMatcher
from specguide.kernels import on_device
from specguide.request import Request
from specguide.sampling import SamplingTensors


class SamplingKind(IntEnum):
    """What the requests of a batch ask of the choice of tokens; each kind does all that those
    before it do."""

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
    """How an iteration chooses tokens: its kind, and which sampling parameters any of the requests
    uses.

    used:      read for what of it is None alone; the values are the slots'
    processed: requests whose logits processors are called, by their place in the batch; what calls
               them is not captured
    """

    kind: SamplingKind
    used: SamplingTensors
    processed: Mapping[int, Request] = field(default_factory=dict)


@cache
def all_used(kind: SamplingKind, device: torch.device) -> Sampling:
    """For requests that may use any sampling parameter, unless all of them are greedy. Graphs may
    refer to it."""
    used = SamplingTensors.neutral(1, device)
    return Sampling(kind, SamplingTensors(seed=used.seed) if kind is SamplingKind.GREEDY else used)


class Selection:
    """The slots and sampling parameters of a batch on the device, kept while the batch stays the
    same."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._selected: tuple[tuple[Request, ...], tuple[int, ...]] = ((), ())
        self._tensors: tuple[Tensor, Sampling] | None = None

    def of(self, batch: Batch) -> tuple[Tensor, Sampling]:
        """Slots int64 [B], and how the requests' tokens are chosen."""
        if self._tensors is None or (batch.requests, batch.slots) != self._selected:
            self._selected = batch.requests, batch.slots
            self._tensors = on_device(batch.slots, self._device), self._sampling_of(batch.requests)
        slots, sampling = self._tensors
        return slots, replace(sampling, processed=batch.processed) if batch.processed else sampling

    def _sampling_of(self, requests: Sequence[Request]) -> Sampling:
        kind = max(SamplingKind.of(request) for request in requests)
        if self._device.type == "cuda":  # no kernels of their own for what some requests leave out
            return all_used(kind, self._device)
        return Sampling(
            kind,
            SamplingTensors.from_params(
                [request.params for request in requests],
                [request.seed for request in requests],
                "cpu",
            ),
        )


def num_graph_slots(batch: Batch, max_batch_size: int) -> int:
    """Slots of the graph that runs the batch, 0 and on: a power of two of them, or all."""
    return min(1 << max(batch.slots).bit_length(), max_batch_size)


def graph_sizes(max_batch_size: int) -> list[int]:
    """All that `num_graph_slots` can be, largest first, so that smaller graphs find its memory in
    their pool."""
    return [
        max_batch_size,
        *(1 << power for power in reversed(range((max_batch_size - 1).bit_length()))),
    ]


def guide_snapshot(batch: Batch) -> GuideSnapshot:
    """What the grammar does beside the batch.

    Walks start with the last chunk of what is computed before the first token, or go on with it
    when it is computed again because their first rows were late.
    """
    window = batch.levels and batch.levels.drafted
    if not batch.is_prefill:
        return GuideSnapshot(started=(), continued=batch.slots, window=window)
    last = [
        (request, slot, chunk)
        for request, slot, chunk in zip(batch.requests, batch.slots, batch.chunks, strict=True)
        if chunk.next_id is None
    ]
    started = tuple(
        WalkStart(slot, _matcher(request), request.tokens(0, request.num_tokens), request.window)
        for request, slot, chunk in last
        if chunk.starts_walk
    )
    return GuideSnapshot(
        started=started,
        continued=tuple(slot for _, slot, chunk in last if not chunk.starts_walk),
        window=window,
    )


def _matcher(request: Request) -> Any:
    """Behind the output of a request that has waited again; None for a free request."""
    if request.grammar is None:
        return None
    try:
        matcher = request.grammar.matcher()
        refused = next((token for token in request.output_ids if not matcher.accept(token)), None)
    except Exception as error:  # of a library or a user
        return FailedMatcher(error)
    if refused is not None:
        return FailedMatcher(
            ValueError(f"it refuses token {refused} of an output that it has allowed")
        )
    return matcher
