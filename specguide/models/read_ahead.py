"""Owns how a checkpoint's tensors are read: several threads read ahead of the one that puts tensors
in their places, within a limit on memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor
from tqdm import tqdm

from specguide.errors import CheckpointError
from specguide.host import machine
from specguide.layers.destination import Destination
from specguide.models.stored_tensors import StoredTensor

_MOST_THREADS = 8
MOST_BYTES_AHEAD = 1 << 30


@dataclass(frozen=True, eq=False)
class Load:
    """One tensor's way from its file to the model. name: names of its file and of itself, for
    messages"""

    name: str
    stored: StoredTensor
    destination: Destination

    def start(self, executor: ThreadPoolExecutor) -> _Started:
        """Begin to read the tensor: into its final place, or into memory from which it is
        converted."""
        stored = self.stored
        device = self.destination.tensor.device
        memory = self.destination.memory(stored.shape, stored.torch_dtype)
        # The memory may have been freed by a conversion that is still running on this stream.
        stream = torch.cuda.current_stream(device) if device.type == "cuda" else None
        return _Started(self, memory, executor.submit(_read, stored, memory, stream))


@dataclass(frozen=True, eq=False)
class _Started:
    load: Load
    memory: Tensor
    reading: Future[None]

    def finish(self) -> int:
        """Put the tensor in its place. Returns its number of bytes."""
        self.reading.result()
        with _naming(self.load.name):
            self.load.destination.fill(self.memory)
        return self.load.stored.num_bytes


def run_loads(loads: Sequence[Load], most_bytes: int) -> None:
    """Run all loads in order, with a progress bar on a terminal.

    Other threads read; only this thread converts. most_bytes: maximum bytes that are read but not
    yet in their places; a larger tensor is read alone. Raises CheckpointError.
    """
    total = sum(load.stored.num_bytes for load in loads)
    with (
        _threads() as executor,
        torch.no_grad(),
        tqdm(total=total, desc="weights", unit="B", unit_scale=True, disable=None) as progress,
    ):
        for num_bytes in _in_order(loads, executor, min(most_bytes, MOST_BYTES_AHEAD)):
            progress.update(num_bytes)
    for load in loads:
        if load.destination.check is not None:
            with _naming(load.name):
                load.destination.check(load.destination.tensor)


@contextmanager
def _naming(tensor: str) -> Iterator[None]:
    """A CheckpointError within begins with the tensor's name."""
    try:
        yield
    except CheckpointError as error:
        raise CheckpointError(f"{tensor} {error}") from None


def _in_order(
    loads: Sequence[Load], executor: ThreadPoolExecutor, most_bytes: int
) -> Iterator[int]:
    """The number of bytes of each tensor, once it is in its place."""
    started: deque[_Started] = deque()
    ahead = 0
    for load in loads:
        while started and ahead + load.stored.num_bytes > most_bytes:
            num_bytes = started.popleft().finish()
            ahead -= num_bytes
            yield num_bytes
        started.append(load.start(executor))
        ahead += load.stored.num_bytes
    while started:
        yield started.popleft().finish()


@contextmanager
def _threads() -> Iterator[ThreadPoolExecutor]:
    """As many threads as make reading faster; after an error none of them goes on."""
    executor = ThreadPoolExecutor(min(_MOST_THREADS, machine.num_cores()), "specguide-load")
    try:
        yield executor
    finally:
        executor.shutdown(cancel_futures=True)


def _read(stored: StoredTensor, memory: Tensor, stream: torch.cuda.Stream | None) -> None:
    with torch.no_grad(), nullcontext() if stream is None else torch.cuda.stream(stream):
        stored.read_into(memory)
