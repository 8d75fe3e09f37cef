"""Owns passes of two parts whose attention is planned apart: nodes that are verified, and chunks of
prompts beside."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TypedDict

import torch
from torch import Tensor

from specguide.kernels.attention.interface import AttentionPlan, ForwardContext
from specguide.kernels.kv_scales import UNSCALED, KVScales


@dataclass(frozen=True, eq=False)
class JoinedContext:
    """A `PassContext` of the tokens of `first`, then those of `second`: no sequence is in both."""

    first: ForwardContext
    second: ForwardContext

    @cached_property
    def position_ids(self) -> Tensor:
        """int64 [T]"""
        return torch.cat([self.first.position_ids, self.second.position_ids])

    @cached_property
    def slot_mapping(self) -> Tensor:
        """int64 [T]"""
        return torch.cat([self.first.slot_mapping, self.second.slot_mapping])

    @cached_property
    def plan(self) -> AttentionPlan:
        """Side by side."""
        return _JoinedPlan(self.first.plan, self.second.plan, len(self.first.position_ids))


class _Same(TypedDict):
    """What both parts of a pass are run with."""

    scale: float
    sliding_window: int | None
    sinks: Tensor | None
    scales: KVScales


@dataclass(frozen=True, eq=False)
class _JoinedPlan:
    """num_first: tokens of the first part"""

    first: AttentionPlan
    second: AttentionPlan
    num_first: int

    def run(
        self,
        query: Tensor,
        key_cache: Tensor,
        value_cache: Tensor,
        *,
        scale: float,
        sliding_window: int | None = None,
        sinks: Tensor | None = None,
        scales: KVScales = UNSCALED,
        output: Tensor | None = None,
    ) -> Tensor:
        if output is None:
            output = torch.empty(query.shape, dtype=query.dtype, device=query.device)
        sizes = [self.num_first, len(query) - self.num_first]
        (first, second), (first_out, second_out) = query.split(sizes), output.split(sizes)
        caches = key_cache, value_cache
        same = _Same(scale=scale, sliding_window=sliding_window, sinks=sinks, scales=scales)
        with _beside(query.device):
            self.second.run(second, *caches, **same, output=second_out)
        self.first.run(first, *caches, **same, output=first_out)
        _join(query.device)
        return output


@cache
def _side_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)


def _beside(device: torch.device) -> AbstractContextManager[object]:
    """What is launched inside runs beside what is launched behind it, until `_join`: the one is
    bound by memory, the other waits for its own results."""
    if device.type != "cuda":
        return nullcontext()
    side = _side_stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    return torch.cuda.stream(side)


def _join(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.current_stream(device).wait_stream(_side_stream(device))
