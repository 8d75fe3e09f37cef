"""Owns the CUDA graphs of single forward passes, which the host replays one after the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from specguide.kernels.capture import capturing

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class _Captured(Generic[T]):
    graph: torch.cuda.CUDAGraph
    inputs: tuple[Tensor, ...]
    outputs: T


class PassGraphs(Generic[T]):
    """Calls `function` on tensors of equal first dimension; on a GPU as a graph, one for each such
    dimension.

    The first call of a size runs as it is, which loads and compiles what it uses. What a replay
    returns is the graph's own: the next replay of any graph of the pool may write over it.

    stream: None runs every call as it is
    pool:   memory of the graphs, shared by those that are never replayed at once
    """

    def __init__(
        self, function: Callable[..., T], stream: torch.cuda.Stream | None, pool: Any
    ) -> None:
        self._function, self._stream, self._pool = function, stream, pool
        self._captured: dict[int, _Captured[T] | None] = {}

    def __call__(self, *inputs: Tensor) -> T:
        size = len(inputs[0])
        if self._stream is None or size not in self._captured:
            self._captured[size] = None
            return self._function(*inputs)
        captured = self._captured[size]
        if captured is None:
            captured = self._captured[size] = self._capture(inputs, self._stream)
        for place, given in zip(captured.inputs, inputs, strict=True):
            place.copy_(given)
        captured.graph.replay()
        return captured.outputs

    def forget(self) -> None:
        """Drop the captured graphs."""
        self._captured.clear()

    def _capture(self, inputs: tuple[Tensor, ...], stream: torch.cuda.Stream) -> _Captured[T]:
        graph, inputs = torch.cuda.CUDAGraph(), tuple(given.clone() for given in inputs)
        with capturing(graph, stream, self._pool):
            outputs = self._function(*inputs)
        return _Captured(graph, inputs, outputs)
