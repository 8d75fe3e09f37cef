"""Owns the grammar of an engine of several ranks: rank 0 walks, and the others use its rows.

Where ranks share host memory, each GPU waits for rank 0's callbacks by itself, and copies the rows
from there. Else rank 0 broadcasts the rows. It always broadcasts proposals, since each rank writes
further tokens beside them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from specguide.config.resolved import CallbackConfig
from specguide.guided.grammar_stream.buffers import plain_zeros
from specguide.guided.grammar_stream.callbacks import (
    GrammarCallbacks,
    HostMemory,
    buffers_of,
    call_words,
)
from specguide.guided.grammar_stream.executor import ExecutorFactory, Walked
from specguide.guided.grammar_stream.no_grammar import NoWalks
from specguide.guided.grammar_stream.step_rows import RowCopies, StepRows
from specguide.guided.grammar_stream.streams import CalledCallbacks
from specguide.kernels.forward_stream import ForwardStream
from specguide.parallel import Ranks
from specguide.trace import Recorder

_ALIGNMENT = 16


class SharedBuffers:
    """The buffers that callbacks write, packed into one message: rank 0 packs tensors at fixed
    addresses, and the others unpack them. Nothing is allocated, so a CUDA graph can capture it."""

    def __init__(self, tensors: Sequence[Tensor], ranks: Ranks, device: torch.device) -> None:
        """tensors: the tensors to share, of the same shapes on all ranks"""
        self._tensors, self._ranks = tensors, ranks
        sizes = [_aligned(tensor.nbytes) for tensor in tensors]
        self._message = torch.zeros(sum(sizes), dtype=torch.uint8, device=device)
        self._parts = [
            part[: tensor.nbytes].view(tensor.dtype).view(tensor.shape)
            for part, tensor in zip(self._message.split(sizes), tensors, strict=True)
        ]

    def share(self) -> None:
        """Copy the tensors of rank 0 to all ranks. All ranks must call it."""
        if not self._tensors:
            return
        if self._ranks.rank == 0:
            for part, tensor in zip(self._parts, self._tensors, strict=True):
                part.copy_(tensor)
        self._ranks.collectives.broadcast(self._message)
        for part, tensor in zip(self._parts, self._tensors, strict=True):
            if self._ranks.rank:
                tensor.copy_(part)


def shared_memory(walked: Walked, forward: ForwardStream, ranks: Ranks) -> HostMemory | None:
    """The memory that rank 0's callbacks and the GPUs of all ranks share; None where there is none.
    All ranks must call it."""
    return None if forward.torch is None else memory_of_ranks(walked, ranks)


def memory_of_ranks(walked: Walked, ranks: Ranks) -> HostMemory | None:
    """The memory that ranks share, also on CPUs; see `shared_memory`."""
    sizes: list[int] = []

    def measured(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        found = torch.zeros(shape, dtype=dtype, device="meta")
        sizes.append(_aligned(found.nbytes))
        return found

    buffers_of(walked, measured, pinned=False)
    call_words(walked, measured, ranks.size)
    shared = ranks.collectives.host_memory(sum(sizes))
    return None if shared is None else _parts_of(*shared, ranks.size)


def _parts_of(memory: Tensor, aborted: Tensor, num_ranks: int) -> HostMemory:
    """Memory that hands out parts of `memory` uint8 [bytes] one after the other. So all ranks must
    ask for the same parts in the same order."""
    num_used = 0

    def zeros(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        nonlocal num_used
        num_bytes = math.prod(shape) * dtype.itemsize
        part = memory[num_used : num_used + num_bytes]
        num_used += _aligned(num_bytes)
        return part.view(dtype).view(shape)

    return HostMemory(zeros, aborted, num_ranks)


def _aligned(num_bytes: int) -> int:
    return -(-num_bytes // _ALIGNMENT) * _ALIGNMENT


def broadcast_buffers(
    rows: StepRows, tokens: Tensor, ranks: Ranks, memory: HostMemory | None
) -> SharedBuffers:
    """The buffers that rank 0 broadcasts. tokens: the tokens of the slots' nodes, into which
    callbacks write their own proposals; memory: the memory that the ranks share"""
    tensors = [] if memory else [rows.bitmask, rows.guided, rows.held]
    if rows.proposals is not None:
        tensors += [*vars(rows.proposals).values(), tokens]
    return SharedBuffers(tensors, ranks, tokens.device)


class SharingCallbacks(GrammarCallbacks):
    """The grammar stream of rank 0."""

    def __init__(
        self,
        walked: Walked,
        config: CallbackConfig,
        forward: ForwardStream,
        recorder: Recorder,
        executor: ExecutorFactory,
        ranks: Ranks,
        tokens: Tensor,
    ) -> None:
        """tokens: the tokens of the slots' nodes, on the step's device"""
        memory = shared_memory(walked, forward, ranks) if config.polls else None
        super().__init__(walked, config, forward, recorder, executor, memory)
        self._shared = broadcast_buffers(self, tokens, ranks, memory)

    def wait_rows(self) -> None:
        super().wait_rows()
        self._shared.share()


class ReceivedRows(NoWalks, StepRows):
    """The grammar stream of the other ranks: it has no callbacks, and uses rank 0's rows."""

    exposed_s: float | None = None

    def __init__(
        self,
        walked: Walked,
        config: CallbackConfig,
        forward: ForwardStream,
        recorder: Recorder,
        ranks: Ranks,
        tokens: Tensor,
    ) -> None:
        """tokens: the tokens of the slots' nodes, on the step's device"""
        self.layout = walked.layout
        self.forward, self.recorder = forward, recorder
        is_on_gpu = forward.torch is not None
        memory = shared_memory(walked, forward, ranks) if config.polls else None
        host = buffers_of(walked, memory.zeros if memory else plain_zeros, pinned=is_on_gpu)
        has_copies = is_on_gpu or memory is not None
        super().__init__(
            walked.shape, host, RowCopies(host, forward.device) if has_copies else None
        )
        self._called: CalledCallbacks | None = None
        if memory is not None:
            words = call_words(walked, memory.zeros, ranks.size)
            calls = words.calls(forward.device, memory.aborted, ranks.rank)
            announced = torch.zeros(1, dtype=torch.int32, device=forward.device)  # rank 0 announces
            self._called = CalledCallbacks(calls, announced)
        self._shared = broadcast_buffers(self, tokens, ranks, memory)

    def launch(self, callback: int, num_slots: int, num_nodes: int | None = None) -> None:
        if self._called is not None:
            self._called.run(callback, partial(self.take, callback, num_slots, num_nodes))

    def wait_rows(self) -> None:
        if self._called is not None:
            self._called.join()
        self._shared.share()

    def abandon(self) -> None:
        if self._called is not None:
            self._called.forget()
