"""Owns how iterations of fixed sizes run on a GPU: as CUDA graphs, or eagerly for comparison."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from specguide.kernels.capture import capturing
from specguide.kernels.compile_ahead import is_rehearsing
from specguide.kernels.products import Gather, choosing
from specguide.speculation.results import VerifyOutput
from specguide.trace import Marks, Recorder

Iterate = Callable[..., VerifyOutput]


class EagerIterations:
    """Runs iterations of fixed sizes kernel by kernel: the slow twin of CapturedIterations, with
    the same arithmetic."""

    def run(self, iterate: Iterate, *sizes: Any) -> VerifyOutput:
        """Run `iterate(*sizes)`, which must depend only on `sizes` and tensors at fixed
        addresses."""
        return iterate(*sizes)

    def forget(self) -> None:
        """Free all captured graphs; nothing may be run afterwards."""


@dataclass(frozen=True, eq=False)
class _Captured:
    """A graph, the tensors that each of its replays writes, and the marks that each records."""

    graph: torch.cuda.CUDAGraph
    outputs: VerifyOutput
    marks: Marks


class CapturedIterations(EagerIterations):
    """Runs a CUDA graph for each combination of function and sizes.

    The first iteration of a kind runs eagerly: it compiles and loads its kernels, and the fastest
    kernel is found for each of its matrix products. The second one is captured. It and all later
    ones are replays.

    stream: the stream on which everything runs
    gather: as in StepOptions
    """

    def __init__(
        self, stream: torch.cuda.Stream, recorder: Recorder, gather: Gather | None = None
    ) -> None:
        self._stream, self._recorder, self._gather = stream, recorder, gather
        self._captured: dict[tuple[Any, ...], _Captured | None] = {}
        self._pool = torch.cuda.graph_pool_handle()

    def run(self, iterate: Iterate, *sizes: Any) -> VerifyOutput:
        """See EagerIterations. The output tensors belong to the graph: its next replay overwrites
        them."""
        key = (iterate, *sizes, self._recorder.iteration_place)
        captured = self._captured.get(key)
        if key not in self._captured or (captured is None and is_rehearsing()):
            self._captured[key] = None
            with choosing(self._stream.device, self._gather):
                return super().run(iterate, *sizes)
        if captured is None:
            captured = self._captured[key] = self._capture(iterate, *sizes)
        captured.graph.replay()
        self._recorder.replayed(captured.marks)
        return captured.outputs

    def forget(self) -> None:
        """See EagerIterations."""
        self._captured.clear()

    def _capture(self, iterate: Iterate, *sizes: Any) -> _Captured:
        graph = torch.cuda.CUDAGraph()
        with self._recorder.capture() as marks, capturing(graph, self._stream, self._pool):
            outputs = iterate(*sizes)
        return _Captured(graph, outputs, marks)
