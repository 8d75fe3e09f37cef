"""Owns the streams of an iteration as the grammar sees them, and the events between them."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

from specguide import native
from specguide.kernels.forward_stream import ForwardStream

_MOST_POLLED = 256  # callbacks, and launches of them that are under way outside of graphs


class GrammarStreams:
    """The grammar stream forks from the forward stream and joins it.

    A third stream announces waits, so that the forward stream's kernels go on one after another.
    """

    def __init__(self, forward: ForwardStream, needed: torch.Tensor, *, polls: bool) -> None:
        """
        needed: int32 [1] on the host, how many callbacks' rows the forward stream waits for or soon
                will; written in the order of the streams
        polls:  callbacks run on a thread that polls for them
        """
        self._needed = needed
        self._grammar_torch: torch.cuda.Stream | None = None
        self._forward: native.Stream
        self.grammar: native.Stream
        self._announcer: native.Stream
        if forward.torch is None:
            self._forward = self._announcer = native.CallerStream("forward")
            self.grammar = native.HostStream("grammar")
        else:
            self._grammar_torch = torch.cuda.Stream(forward.device)
            self._announcer_torch = torch.cuda.Stream(forward.device)
            self._forward = native.CudaStream(forward.torch.cuda_stream, "forward")
            self.grammar = native.CudaStream(self._grammar_torch.cuda_stream, "grammar")
            self._announcer = native.CudaStream(self._announcer_torch.cuda_stream, "announcer")
        if polls:
            words = torch.zeros(
                2 * _MOST_POLLED, dtype=torch.int32, pin_memory=forward.torch is not None
            )
            self.grammar = native.PollingStream(self.grammar, words.data_ptr(), _MOST_POLLED, words)
        self._tokens_ready = self._forward.make_event("tokens ready")
        self._rows_ready = self.grammar.make_event("rows ready")
        self._needed_reset = self.grammar.make_event("needed reset")
        self._wait_announced = self._forward.make_event("wait announced")
        self._wait_known = self._announcer.make_event("wait known")
        self._is_announced = False

    def fork(self, *, begins_iteration: bool) -> None:
        """The grammar stream goes on from where the forward stream is."""
        self._forward.record(self._tokens_ready)
        self.grammar.wait(self._tokens_ready)
        if begins_iteration:
            self.grammar.write_value(self._needed.data_ptr(), 0)
            self.grammar.record(self._needed_reset)

    def current(self) -> AbstractContextManager[object]:
        """Makes the grammar stream torch's current one."""
        stream = self._grammar_torch
        return nullcontext() if stream is None else torch.cuda.stream(stream)

    def rows_ready(self) -> None:
        """The grammar stream has come to what the forward stream will wait for."""
        self.grammar.record(self._rows_ready)

    def announce(self, num_callbacks: int) -> None:
        """The forward stream will soon wait for the rows of so many callbacks of the iteration."""
        self._forward.record(self._wait_announced)
        self._announcer.wait(self._wait_announced)
        self._announcer.wait(self._needed_reset)
        self._announcer.write_value(self._needed.data_ptr(), num_callbacks)
        self._announcer.record(self._wait_known)
        self._is_announced = True

    def join(self) -> None:
        """The forward stream waits for the rows, and for the announcer."""
        if self._is_announced:
            self._forward.wait(self._wait_known)
            self._is_announced = False
        self._forward.wait(self._rows_ready)
