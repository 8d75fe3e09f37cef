"""Owns how a decode iteration runs on a GPU: as CUDA graphs, one for each number of slots and kind of sampling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from specguide.spec.capture import capturing
from specguide.spec.results import Verified
from specguide.spec.selection import Sampling, SamplingKind, all_used
from specguide.trace import Marks, Recorder

Decode = Callable[[slice, Sampling], Verified]


def fixed_arguments(num_slots: int, kind: SamplingKind, device: torch.device) -> tuple[slice, Sampling]:
    """What decodes slots 0 … num_slots - 1, whichever of them have requests."""
    return slice(0, num_slots), all_used(kind, device)


class EagerDecode:
    """Runs `decode(slots, sampling)` for slots 0 … n - 1 as it is: the slow twin of DecodeGraphs, of equal arithmetic.

    A slot in the range that has no request does no harm.
    """

    def __init__(self, decode: Decode, device: torch.device) -> None:
        self._decode, self._device = decode, device

    def run(self, num_slots: int, kind: SamplingKind) -> Verified:
        """One iteration of slots 0 … num_slots - 1; what `decode` returns."""
        return self._decode(*fixed_arguments(num_slots, kind, self._device))


@dataclass(frozen=True, eq=False)
class _Captured:
    """A graph, the tensors that each of its replays reads and those that it writes, and the marks that each records."""

    graph: torch.cuda.CUDAGraph
    arguments: tuple[slice, Sampling]
    outputs: Verified
    marks: Marks


class DecodeGraphs(EagerDecode):
    """A graph for each number of slots and kind of sampling.

    The first iteration of a size runs as it is, which loads and compiles what it uses; the second is captured, and it
    and all later ones are replays.

    stream: where everything runs
    """

    def __init__(self, decode: Decode, stream: torch.cuda.Stream, recorder: Recorder) -> None:
        super().__init__(decode, stream.device)
        self._stream, self._recorder = stream, recorder
        self._captured: dict[tuple[int, SamplingKind, int], _Captured | None] = {}
        self._pool = torch.cuda.graph_pool_handle()

    def run(self, num_slots: int, kind: SamplingKind) -> Verified:
        """As EagerDecode's; the tensors are the graph's own: the next replay writes over them."""
        key = (num_slots, kind, self._recorder.turn)
        if key not in self._captured:
            self._captured[key] = None
            return super().run(num_slots, kind)
        captured = self._captured[key]
        if captured is None:
            captured = self._captured[key] = self._capture(num_slots, kind)
        captured.graph.replay()
        self._recorder.replayed(captured.marks)
        return captured.outputs

    def _capture(self, num_slots: int, kind: SamplingKind) -> _Captured:
        graph, arguments = torch.cuda.CUDAGraph(), fixed_arguments(num_slots, kind, self._device)
        with self._recorder.capture() as marks, capturing(graph, self._stream, self._pool):
            outputs = self._decode(*arguments)
        return _Captured(graph, arguments, outputs, marks)
