"""Owns the CUDA graphs of the decode iteration: one for each number of slots and kind of sampling that came up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from specguide.kernels import SamplingTensors
from specguide.trace import Marks, Recorder

Decode = Callable[[slice, SamplingTensors], tuple[Tensor, Tensor]]


@dataclass(frozen=True, eq=False)
class _Captured:
    """A graph, the tensors that each of its replays reads and those that it writes, and the marks that each records."""

    graph: torch.cuda.CUDAGraph
    arguments: tuple[slice, SamplingTensors]
    outputs: tuple[Tensor, Tensor]
    marks: Marks


class DecodeGraphs:
    """Runs `decode(slots, sampling)` for slots 0 … n - 1, a graph for each n and kind of sampling.

    The first iteration of a size runs as it is, which loads and compiles what it uses; the second is captured, and it
    and all later ones are replays. A slot in the range that has no request does no harm.

    stream: where everything runs
    """

    def __init__(self, decode: Decode, stream: torch.cuda.Stream, recorder: Recorder) -> None:
        self._decode, self._stream, self._recorder = decode, stream, recorder
        self._captured: dict[tuple[int, bool, int], _Captured | None] = {}
        self._pool = torch.cuda.graph_pool_handle()

    def run(self, num_slots: int, sampling: SamplingTensors) -> tuple[Tensor, Tensor]:
        """One iteration of slots 0 … num_slots - 1; what `decode` returns.

        The tensors are the graph's own: the next replay writes over them.
        """
        is_greedy = sampling.temperature is None
        key = (num_slots, is_greedy, self._recorder.turn)
        if key not in self._captured:
            self._captured[key] = None
            return self._decode(*self._arguments(num_slots, is_greedy))
        captured = self._captured[key]
        if captured is None:
            captured = self._captured[key] = self._capture(num_slots, is_greedy)
        captured.graph.replay()
        self._recorder.replayed(captured.marks)
        return captured.outputs

    def _capture(self, num_slots: int, is_greedy: bool) -> _Captured:
        graph, arguments = torch.cuda.CUDAGraph(), self._arguments(num_slots, is_greedy)
        torch.cuda.synchronize()
        with self._recorder.capture() as marks, torch.cuda.graph(
                graph, pool=self._pool, stream=self._stream, capture_error_mode="thread_local"):
            outputs = self._decode(*arguments)
        return _Captured(graph, arguments, outputs, marks)

    def _arguments(self, num_slots: int, is_greedy: bool) -> tuple[slice, SamplingTensors]:
        """All sampling parameters count in a graph that samples, since later replays may use any."""
        device = self._stream.device
        sampling = SamplingTensors.neutral(1, device)
        if is_greedy:
            sampling = SamplingTensors(seed=sampling.seed)
        return slice(0, num_slots), sampling
