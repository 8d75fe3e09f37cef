"""Owns the grammar stream of an engine with guides: the executor of the walks, run by host
callbacks."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import fields, replace

from specguide import native
from specguide.batch import GuideSnapshot
from specguide.errors import MatcherError
from specguide.guided.buffers import BufferRows, GrammarBuffers, RowsOnGpu
from specguide.guided.executor import ExecutorFactory, Walked, native_executor
from specguide.guided.matcher import Matcher
from specguide.guided.stream import GrammarCounters
from specguide.guided.streams import GrammarStreams
from specguide.kernels.forward_stream import ForwardStream
from specguide.resolved_config import CallbackConfig
from specguide.trace import Recorder

_ABANDON_TIMEOUT_S = 10.0


class GrammarCallbacks(BufferRows):
    """A `GrammarStream` that runs the walk of every slot as host callbacks.

    buffers: what the step reads, on its device

    On a GPU the callbacks fill pinned rows, and `launch` copies them on the grammar stream.
    """

    def __init__(
        self,
        walked: Walked,
        config: CallbackConfig,
        forward: ForwardStream,
        recorder: Recorder,
        executor: ExecutorFactory = native_executor,
    ) -> None:
        """executor: makes what runs the walks"""
        self.layout, self.forward, self.recorder = walked.layout, forward, recorder
        self._shape = walked.shape
        self._vocab_size = walked.vocab_size
        self._is_on_gpu = forward.torch is not None
        self._host = buffers = buffers_of(walked, pinned=self._is_on_gpu)
        if self._is_on_gpu:
            self._rows = RowsOnGpu.allocate(self._host, forward.device)
            buffers = self._rows.device
        super().__init__(buffers)
        self._streams = GrammarStreams(forward, self._host.needed, polls=config.polls)
        self.exposed_s = None if self._is_on_gpu else 0.0
        self._executor = executor(self._host, walked, config)
        self._callbacks = self._executor.callbacks()
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
        )

    def launch(self, callback: int, num_slots: int, num_nodes: int | None = None) -> None:
        self._launched = callback
        self._streams.fork(begins_iteration=callback == 0)
        with self._streams.current():
            self.recorder.grammar("wait tokens")
            self._streams.grammar.launch(self._callbacks[callback])
            self.recorder.grammar(f"callback {callback}")
            if self._is_on_gpu:
                self._copy_rows(callback, num_slots, num_nodes)
            self.recorder.grammar("copy rows")
        self._streams.rows_ready()

    def announce_wait(self) -> None:
        self._streams.announce(self._launched + 1)

    def wait_rows(self) -> None:
        start = time.perf_counter()
        self._streams.join()
        if self.exposed_s is not None:
            self.exposed_s += time.perf_counter() - start
        self.recorder.forward("wait rows")

    def errors(self, slots: Iterable[int]) -> dict[int, MatcherError]:
        self._streams.grammar.check()
        self._executor.check()
        found = ((slot, self._executor.error(slot)) for slot in slots)
        return {slot: MatcherError(message) for slot, message in found if message is not None}

    def abandon(self) -> None:
        self._streams.grammar.synchronize(_ABANDON_TIMEOUT_S)
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

    def _copy_rows(self, callback: int, num_slots: int, num_nodes: int | None) -> None:
        if callback == 0:
            self._shape.copy_target_rows(self._rows, num_slots, num_nodes)
        else:
            self._shape.copy_draft_rows(self._rows, callback, num_slots)

    def _native(self, matcher: Matcher | native.Matcher | None) -> native.Matcher | None:
        if matcher is None or isinstance(matcher, native.Matcher):
            return matcher
        return native.PythonMatcher(matcher, self._vocab_size)


def buffers_of(walked: Walked, *, pinned: bool) -> GrammarBuffers:
    """What callbacks write for these walks, on the host."""
    num_slots, num_nodes = walked.nodes.tokens.shape
    num_words = (walked.vocab_size + 31) // 32
    return replace(
        GrammarBuffers.allocate(num_slots, num_nodes, num_words, pinned=pinned),
        proposals=walked.shape.proposals(num_slots, pinned=pinned),
    )
