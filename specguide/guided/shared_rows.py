"""Owns the grammar of an engine of several ranks: rank 0 walks, and its rows go to the others.

Where ranks share memory, rank 0's grammar stream writes the rows of a chain into the others' as it
has copied them, while all of them compute; each of the others waits for them where rank 0 does.
Else, and for trees and proposals, all rows are broadcast there.
"""

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
from specguide.guided.walk_shapes import ChainWalks
from specguide.kernels import RowChannel, send_rows, take_rows
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


class SentRows:
    """Rows on their way from rank 0 to the others, each callback's by themselves."""

    def __init__(self, buffers: GrammarBuffers, channel: RowChannel) -> None:
        self._buffers, self._channel = buffers, channel

    def send(self, callback: int, num_slots: int, num_nodes: int | None) -> None:
        """On rank 0, those that a callback has filled; see GrammarStream.launch."""
        send_rows(*self._rows(callback, num_slots, num_nodes))

    def take(self, callback: int, num_slots: int, num_nodes: int | None) -> None:
        """On another rank, wait for them."""
        take_rows(*self._rows(callback, num_slots, num_nodes))

    def _rows(
        self, callback: int, num_slots: int, num_nodes: int | None
    ) -> tuple[Tensor, Tensor, Tensor, RowChannel, int]:
        bitmask, guided, held = self._buffers.bitmask, self._buffers.guided, self._buffers.held
        most_nodes, most_slots = guided.shape
        nodes, place = slice(0, num_nodes), 0
        if callback:
            nodes = slice(callback - 1, callback)
            place = (most_nodes + callback - 1) * most_slots
        slots = slice(0, num_slots)
        return bitmask[nodes, slots], guided[nodes, slots], held[slots], self._channel, place


def sent_rows(
    buffers: GrammarBuffers, shape: ChainWalks, ranks: Ranks, forward: ForwardStream
) -> SentRows | None:
    """None where rows are broadcast. All ranks call it."""
    if forward.torch is None or not shape.has_rows_alone:
        return None
    num_nodes, num_slots, num_words = buffers.bitmask.shape
    channel = ranks.collectives.row_channel(2 * num_nodes * num_slots, num_words)
    return None if channel is None else SentRows(buffers, channel)


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
        self._sent: SentRows | None = None
        self._shared: SharedBuffers | None = None

    def share_with(self, ranks: Ranks, tokens: Tensor) -> SendingCallbacks:
        """From now on. tokens: of the slots' nodes, on the step's device"""
        self._sent = sent_rows(self.buffers, self._shape, ranks, self.forward)
        if self._sent is None:
            self._shared = shared_buffers(self.buffers, tokens, ranks, self.forward.device)
        return self

    def wait_rows(self) -> None:
        super().wait_rows()
        if self._shared is not None:
            self._shared.share()

    def _copy_rows(self, callback: int, num_slots: int, num_nodes: int | None) -> None:
        super()._copy_rows(callback, num_slots, num_nodes)
        if self._sent is not None:
            self._sent.send(callback, num_slots, num_nodes)


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
        self._sent = sent_rows(self.buffers, walked.shape, ranks, forward)
        self._launched: list[tuple[int, int, int | None]] = []
        if self._sent is None:
            self._shared = shared_buffers(self.buffers, tokens, ranks, forward.device)

    def submit(self, snapshot: GuideSnapshot) -> None:
        pass

    def launch(self, callback: int, num_slots: int, num_nodes: int | None = None) -> None:
        self._launched.append((callback, num_slots, num_nodes))

    def announce_wait(self) -> None:
        pass

    def wait_rows(self) -> None:
        launched, self._launched = self._launched, []
        if self._sent is None:
            self._shared.share()
            return
        for which in launched:
            self._sent.take(*which)

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
