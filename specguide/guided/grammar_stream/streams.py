"""Owns how grammar callbacks are run beside an iteration's forward passes, and waited for.

With polled callbacks on a GPU, the forward stream calls and awaits each callback by words in
memory. There is then no second stream, and no kernel waits for a fork or a join. Else the grammar
has a stream of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import torch
from torch import Tensor

from specguide import native
from specguide.errors import EngineError
from specguide.guided.grammar_stream.buffers import Zeros
from specguide.kernels import HostCall, Wait, call_host
from specguide.kernels.forward_stream import ForwardStream
from specguide.kernels.shared_memory import mapped

TakeRows = Callable[[Wait | None], None]
"""A function that launches the kernel that takes a callback's rows, after the given wait for the
callback."""

_NAP_S = 0.001
_MOST_POLLED = 256  # callbacks, and launches outside of graphs that are under way


class CallbackStreams(Protocol):
    """Runs callbacks in the order of an iteration. All methods but the last two can be captured in
    a CUDA graph."""

    def run(self, callback: int, take: TakeRows) -> None:
        """Run callback 0 … K once the forward stream has reached this point, and then `take`."""

    def announce(self, num_callbacks: int) -> None:
        """Say that the forward stream will soon wait for the rows of the iteration's first
        `num_callbacks` callbacks."""

    def join(self) -> None:
        """Make the forward stream wait for everything that was run."""

    def check(self) -> None:
        """Raise EngineError when a callback did not run, or failed."""

    def synchronize(self, timeout: float) -> None:
        """Wait for all work under way, and forget callbacks that were not joined. Raises
        EngineError where the work does not finish within `timeout` seconds."""


class ForkedCallbacks:
    """A grammar stream that forks from the forward stream and joins it."""

    def __init__(
        self,
        forward: ForwardStream,
        needed: Tensor,
        callbacks: Sequence[native.HostFunction],
        *,
        polls: bool,
    ) -> None:
        """
        needed: int32 [1] on the host, number of callbacks for whose rows the forward stream waits,
                or soon will
        polls:  run callbacks on a thread that polls for them; only on a CPU, since a GPU then has
                PolledCallbacks
        """
        self._needed, self._callbacks = needed, callbacks
        self._grammar_torch: torch.cuda.Stream | None = None
        self._forward: native.Stream
        self.grammar: native.Stream
        if forward.torch is None:
            self._forward = native.CallerStream("forward")
            self.grammar = native.HostStream("grammar")
        else:
            self._grammar_torch = torch.cuda.Stream(forward.device)
            self._forward = native.CudaStream(forward.torch.cuda_stream, "forward")
            self.grammar = native.CudaStream(self._grammar_torch.cuda_stream, "grammar")
        if polls:
            words = torch.zeros(2 * _MOST_POLLED, dtype=torch.int32)
            self.grammar = native.PollingStream(self.grammar, words.data_ptr(), _MOST_POLLED, words)
        self._tokens_ready = self._forward.make_event("tokens ready")
        self._rows_ready = self.grammar.make_event("rows ready")

    def run(self, callback: int, take: TakeRows) -> None:
        if callback == 0:
            self.announce(0)
        self._forward.record(self._tokens_ready)
        self.grammar.wait(self._tokens_ready)
        self.grammar.launch(self._callbacks[callback])
        with self._current():
            take(None)
        self.grammar.record(self._rows_ready)

    def announce(self, num_callbacks: int) -> None:
        self._forward.write_value(self._needed.data_ptr(), num_callbacks)

    def join(self) -> None:
        self._forward.wait(self._rows_ready)

    def check(self) -> None:
        self.grammar.check()

    def synchronize(self, timeout: float) -> None:
        self.grammar.synchronize(timeout)

    def _current(self) -> AbstractContextManager[object]:
        """A context in which the grammar stream is torch's current stream."""
        stream = self._grammar_torch
        return nullcontext() if stream is None else torch.cuda.stream(stream)


class CallWords:
    """The words in host memory by which callbacks are called and answered. Each callback has two,
    and one more for each further rank, which tells rank 0 that this rank has reached the call."""

    def __init__(self, most_callbacks: int, zeros: Zeros, num_ranks: int = 1) -> None:
        self.most_callbacks = most_callbacks
        self.words = zeros((1 + num_ranks, most_callbacks), torch.int32)

    @property
    def answers(self) -> Tensor:
        """The numbers of the last calls that are over, int32 [most_callbacks]."""
        return self.words[1]

    def calls(self, device: torch.device, aborted: Tensor, rank: int = 0) -> list[HostCall]:
        """The calls that a rank's device makes. aborted: int32 [1] in host memory, as the device
        reads it"""
        words = mapped(self.words, device)
        most = self.most_callbacks
        due, others = (words[1 + rank], words[:0]) if rank else (words[0], words[2:])
        own = torch.zeros(2 * most, dtype=torch.int32, device=device)
        ones = (it.split(1) for it in (due, words[1], *own.chunk(2)))
        return [
            HostCall(ours, done, called, over, aborted, others[:, i])
            for i, (ours, done, called, over) in enumerate(zip(*ones, strict=True))
        ]


class CalledCallbacks:
    """Callbacks that a GPU's forward stream calls by words. It waits for answers where it needs
    them, and each wait also announces itself."""

    def __init__(self, calls: Sequence[HostCall], needed: Tensor) -> None:
        """needed: int32 [1] in host memory, as the device writes it; see ForkedCallbacks"""
        self._calls, self._needed = calls, needed
        self._under_way: list[tuple[int, TakeRows]] = []

    def run(self, callback: int, take: TakeRows) -> None:
        call_host(self._calls[callback], self._needed if callback == 0 else None)
        self._under_way.append((callback, take))

    def announce(self, num_callbacks: int) -> None:
        pass

    def join(self) -> None:
        under_way, self._under_way = self._under_way, []
        for callback, take in under_way:
            take(Wait(self._calls[callback], self._needed, callback + 1))

    def forget(self) -> None:
        """Forget the callbacks that were not joined."""
        self._under_way = []


class PolledCallbacks(CalledCallbacks):
    """CalledCallbacks that run in this process, on a thread that polls for calls."""

    def __init__(
        self,
        forward: ForwardStream,
        needed: Tensor,
        callbacks: Sequence[native.HostFunction],
        words: CallWords,
        aborted: Tensor,
    ) -> None:
        """needed: see ForkedCallbacks; aborted: see CallWords.calls"""
        stream: native.Stream = native.CallerStream("forward")
        if forward.torch is not None:
            stream = native.CudaStream(forward.torch.cuda_stream, "forward")
        address = words.words.data_ptr()
        num = words.most_callbacks
        self.polling = native.PollingStream(stream, address, num, words.words)
        self._held = [self.polling.hold(callback) for callback in callbacks]
        places = [(it.due, it.done) for it in self._held]
        assert places == [(i, num + i) for i in range(len(callbacks))]  # as in `calls`
        self._words = words
        super().__init__(words.calls(forward.device, aborted), mapped(needed, forward.device))

    def check(self) -> None:
        self.polling.check()

    def synchronize(self, timeout: float) -> None:
        self.forget()
        self.polling.synchronize(timeout)
        called = torch.cat([call.called for call in self._calls]).cpu()
        end = time.monotonic() + timeout
        while not torch.equal(self._words.answers, called):
            if time.monotonic() > end:
                raise EngineError(f"a grammar callback did not end within {timeout:g} s")
            time.sleep(_NAP_S)
