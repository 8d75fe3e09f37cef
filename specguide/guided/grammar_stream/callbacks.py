"""Owns the grammar stream of an engine with guides: host callbacks run the executor, which walks
the matchers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from functools import partial

import torch
from torch import Tensor

from specguide import native
from specguide.batch import GuideSnapshot
from specguide.config.resolved import CallbackConfig
from specguide.errors import MatcherError
from specguide.guided.adapters.to_native import native_matcher
from specguide.guided.grammar_stream.buffers import GrammarBuffers, Zeros, pinned_zeros, plain_zeros
from specguide.guided.grammar_stream.executor import ExecutorFactory, Walked, native_executor
from specguide.guided.grammar_stream.step_rows import RowCopies, StepRows
from specguide.guided.grammar_stream.stream import GrammarCounters
from specguide.guided.grammar_stream.streams import (
    CallbackStreams,
    CallWords,
    ForkedCallbacks,
    PolledCallbacks,
)
from specguide.guided.matcher import Matcher
from specguide.kernels.forward_stream import ForwardStream
from specguide.kernels.shared_memory import mapped
from specguide.trace import Recorder

_ABANDON_TIMEOUT_S = 10.0
_NUM_KEPT_ROWS = 4096
"""Number of rows kept on a GPU: 64 MiB with a vocabulary of 128,000 tokens."""


class HostMemory:
    """Host memory that callbacks write and GPUs read.

    zeros:     allocates parts of this memory
    aborted:   int32 [1] in this memory, as this GPU reads it; not 0: nobody waits for callbacks any
               more
    num_ranks: number of ranks whose GPUs read it
    """

    def __init__(self, zeros: Zeros, aborted: Tensor, num_ranks: int = 1) -> None:
        self.zeros, self.aborted, self.num_ranks = zeros, aborted, num_ranks

    @classmethod
    def of_process(cls, device: torch.device) -> HostMemory:
        """Memory that only this process and its GPU share."""
        return cls(pinned_zeros, mapped(pinned_zeros((1,), torch.int32), device))


class GrammarCallbacks(StepRows):
    """A `GrammarStream` that runs the walks of all slots as host callbacks.

    The callbacks fill rows in host memory. On a GPU the step has copies of them.
    """

    def __init__(
        self,
        walked: Walked,
        config: CallbackConfig,
        forward: ForwardStream,
        recorder: Recorder,
        executor: ExecutorFactory = native_executor,
        memory: HostMemory | None = None,
    ) -> None:
        """
        executor: makes the executor that runs the walks
        memory:   the memory from which the step copies rows; None: on a GPU, memory of this process
                  alone; on a CPU, the step reads the rows in place
        """
        self.layout = walked.layout
        self.forward, self.recorder = forward, recorder
        self._vocab_size = walked.vocab_size
        is_on_gpu = forward.torch is not None
        if is_on_gpu and memory is None:
            memory = HostMemory.of_process(forward.device)
        host = buffers_of(walked, memory.zeros if memory else plain_zeros, pinned=is_on_gpu)
        copies = None if memory is None else RowCopies(host, forward.device)
        super().__init__(walked.shape, host, copies)
        self.exposed_s = None if is_on_gpu else 0.0
        self._executor = executor(host, walked, config)
        callbacks = self._executor.callbacks()
        self._streams: CallbackStreams
        if memory is not None and config.polls:
            words = call_words(walked, memory.zeros, memory.num_ranks)
            self._streams = PolledCallbacks(forward, host.needed, callbacks, words, memory.aborted)
        else:
            self._streams = ForkedCallbacks(forward, host.needed, callbacks, polls=config.polls)
        self._launched = 0
        if recorder.max_spans:
            self._executor.log_callbacks(recorder.max_spans)

    def submit(self, snapshot: GuideSnapshot) -> None:
        started = [(start.slot, self._native(start.matcher)) for start in snapshot.started]
        texts = (
            {start.slot: start.token_ids for start in snapshot.started}
            if self.layout.num_lookup
            else {}
        )
        limits = {
            start.slot: self._shape.request_limits(start.layout)
            for start in snapshot.started
            if start.layout is not None
        }
        self._executor.submit(
            started,
            snapshot.continued,
            texts,
            limits,
            None if snapshot.layout is None else self._shape.limits(snapshot.layout),
            {
                start.slot: partial(self._restarted, start.restart)
                for start in snapshot.started
                if start.restart is not None
            },
        )

    def launch(self, callback: int, num_slots: int, num_nodes: int | None = None) -> None:
        self._launched = callback
        self._streams.run(callback, partial(self.take, callback, num_slots, num_nodes))

    def announce_wait(self) -> None:
        self._streams.announce(self._launched + 1)

    def wait_rows(self) -> None:
        start = time.perf_counter()
        self._streams.join()
        if self.exposed_s is not None:
            self.exposed_s += time.perf_counter() - start
        self.recorder.forward("wait rows")

    def errors(self, slots: Iterable[int]) -> dict[int, MatcherError]:
        self._streams.check()
        self._executor.check()
        found = ((slot, self._executor.error(slot)) for slot in slots)
        return {slot: MatcherError(message) for slot, message in found if message is not None}

    def abandon(self) -> None:
        self._streams.synchronize(_ABANDON_TIMEOUT_S)
        self._executor.discard_snapshots()

    def detach(self, slot: int) -> None:
        self._executor.detach(slot)

    def is_idle(self, slot: int) -> bool:
        return self._executor.is_idle(slot)

    def counters(self) -> GrammarCounters:
        found = self._executor.counters()
        names = (field.name for field in fields(GrammarCounters))
        return GrammarCounters(**{name: getattr(found, name) for name in names})

    def take_callback_times(self) -> list[tuple[int, int, int, int]]:
        return self._executor.take_callback_spans()

    def _restarted(
        self, restart: Callable[[Sequence[int]], Matcher], tokens: Sequence[int]
    ) -> native.Matcher:
        return native_matcher(restart(tokens), self._vocab_size)

    def _native(self, matcher: Matcher | native.Matcher | None) -> native.Matcher | None:
        return None if matcher is None else native_matcher(matcher, self._vocab_size)


def call_words(walked: Walked, zeros: Zeros, num_ranks: int) -> CallWords:
    """The words that call these walks' callbacks: one callback before the first stage, and one
    behind each stage."""
    return CallWords(len(walked.layout.stages), zeros, num_ranks)


def buffers_of(walked: Walked, zeros: Zeros, *, pinned: bool) -> GrammarBuffers:
    """The buffers that callbacks write for these walks, on the host. zeros: `plain_zeros` where the
    step has no copies; pinned: whether the proposals are in pinned memory"""
    num_slots, num_nodes = walked.nodes.tokens.shape
    num_words = (walked.vocab_size + 31) // 32
    has_copies = zeros is not plain_zeros
    is_room = 4 * num_slots * num_nodes <= _NUM_KEPT_ROWS  # for new numbers while others are used
    return replace(
        GrammarBuffers.allocate(num_slots, num_nodes, num_words, zeros),
        proposals=walked.shape.proposals(num_slots, pinned=pinned),
        num_kept_rows=_NUM_KEPT_ROWS if has_copies and is_room else 0,
    )
