"""Owns the stream on which all work of an iteration is launched."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch


class ForwardStream:
    """torch's CUDA stream of the step on a GPU; on a CPU the calling thread plays its part.

    device: the device on which it runs
    torch:  torch's stream; None on a CPU
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.torch = torch.cuda.Stream(device) if device.type == "cuda" else None

    def current(self) -> AbstractContextManager[object]:
        """A context in which this stream is torch's current stream and its device the current
        device, on any thread. Everything is launched inside such a context."""
        return nullcontext() if self.torch is None else torch.cuda.stream(self.torch)

    def synchronize(self) -> None:
        """Wait until everything that was launched has finished."""
        if self.torch is not None:
            self.torch.synchronize()
