"""Owns the grammar of an engine of several ranks: rank 0 walks, and its rows go to the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from specguide.batch import GuideSnapshot
from specguide.errors import MatcherError
from specguide.guided.buffers import BufferRows, GrammarBuffers
from specguide.guided.callbacks import GrammarCallbacks, buffers_of
from specguide.guided.executor import ExecutorFactory, Walked, native_executor
from specguide.guided.stream import GrammarCounters
from specguide.kernels.forward_stream import ForwardStream
from specguide.parallel import Ranks
from specguide.resolved_config import CallbackConfig
from specguide.trace import Recorder

_ALIGNMENT = 16


class SharedBuffers:
    """What callbacks write, in one message: tensors at fixed addresses, which rank 0 packs and the
    others unpack. Nothing is allocated, so that a CUDA graph can capture it."""

    def __init__(self, tensors: Sequence[Tensor], ranks: Ranks, device: torch.device) -> None:
        """tensors: of the same shapes on all ranks"""
        self._tensors, self._ranks = tensors, ranks
        sizes = [-(-tensor.nbytes // _ALIGNMENT) * _ALIGNMENT for tensor in tensors]
        self._message = torch.zeros(sum(sizes), dtype=torch.uint8, device=device)
        self._parts = [
            part[: tensor.nbytes].view(tensor.dtype).view(tensor.shape)
            for part, tensor in zip(self._message.split(sizes), tensors, strict=True)
        ]

    def share(self) -> None:
        """Make the tensors of all ranks those of rank 0; all of them call it."""
        if self._ranks.rank == 0:
            for part, tensor in zip(self._parts, self._tensors, strict=True):
                part.copy_(tensor)
        self._ranks.collectives.broadcast(self._message)
        for part, tensor in zip(self._parts, self._tensors, strict=True):
            if self._ranks.rank:
                tensor.copy_(part)


def shared_buffers(
    buffers: GrammarBuffers, tokens: Tensor, ranks: Ranks, device: torch.device
) -> SharedBuffers:
    """tokens: of the slots' nodes, into which callbacks write their own proposals"""
    tensors = [buffers.bitmask, buffers.guided, buffers.held]
    if buffers.proposals is not None:
        tensors += [*vars(buffers.proposals).values(), tokens]
    return SharedBuffers(tensors, ranks, device)


class SendingCallbacks(GrammarCallbacks):
    """Rank 0's grammar stream: each time that the forward stream has the rows, it sends them."""

    def __init__(
        self,
        walked: Walked,
        config: CallbackConfig,
        forward: ForwardStream,
        recorder: Recorder,
        executor: ExecutorFactory = native_executor,
    ) -> None:
        super().__init__(walked, config, forward, recorder, executor)
        self._shared: SharedBuffers | None = None

    def share_with(self, ranks: Ranks, tokens: Tensor) -> SendingCallbacks:
        """From now on. tokens: of the slots' nodes, on the step's device"""
        self._shared = shared_buffers(self.buffers, tokens, ranks, self.forward.device)
        return self

    def wait_rows(self) -> None:
        super().wait_rows()
        assert self._shared is not None
        self._shared.share()


class ReceivedRows(BufferRows):
    """The grammar stream of the other ranks: no callbacks, and rows that come from rank 0."""

    exposed_s: float | None = None

    def __init__(
        self,
        walked: Walked,
        forward: ForwardStream,
        recorder: Recorder,
        ranks: Ranks,
        tokens: Tensor,
    ) -> None:
        """tokens: of the slots' nodes, on the step's device"""
        self.layout, self.forward, self.recorder = walked.layout, forward, recorder
        is_on_gpu = forward.torch is not None
        host = buffers_of(walked, pinned=is_on_gpu)
        super().__init__(host.on_device(forward.device) if is_on_gpu else host)
        self._shared = shared_buffers(self.buffers, tokens, ranks, forward.device)

    def submit(self, snapshot: GuideSnapshot) -> None:
        pass

    def launch(self, callback: int, num_slots: int, num_nodes: int | None = None) -> None:
        pass

    def announce_wait(self) -> None:
        pass

    def wait_rows(self) -> None:
        self._shared.share()

    def errors(self, slots: Iterable[int]) -> dict[int, MatcherError]:
        return {}

    def abandon(self) -> None:
        pass

    def detach(self, slot: int) -> None:
        pass

    def is_idle(self, slot: int) -> bool:
        return True

    def counters(self) -> GrammarCounters:
        return GrammarCounters()

    def take_callback_times(self) -> list[tuple[int, int, int, int]]:
        return []
