"""Owns the grammar side of the iteration: the executor, the two streams and their events."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import torch

from specguide import native
from specguide.batch import GuideSnapshot
from specguide.config import GuideConfig
from specguide.draft_layout import DraftLayout
from specguide.errors import MatcherError
from specguide.guided.buffers import GuideBuffers, ProposalBuffers, WalkedNodes
from specguide.guided.executor import ExecutorFactory, native_executor
from specguide.guided.matcher import Matcher
from specguide.kernels import copy_guided_rows
from specguide.trace import Recorder

_ABANDON_TIMEOUT_S = 10.0
_MOST_POLLED = 256  # callbacks, and launches of them that are under way outside of graphs


class GuidedDecoder:
    """Runs the grammar walk of every slot beside the forward passes.

    window:         the drafts that there may be
    buffers:        what the step reads and writes, on its device
    recorder:       what marks the two streams for a timeline
    forward_stream: torch's stream of the step on a GPU; None on a CPU, where the calling thread is
                    the stream
    exposed_s:      seconds that the forward stream has waited for rows; None on a GPU, where only a
                    timeline tells

    On a GPU the callbacks fill pinned rows, and `launch` copies them on the grammar stream. All
    that `launch` and `wait_rows` do can be captured in a CUDA graph.
    """

    def __init__(
        self,
        nodes: WalkedNodes,
        window: DraftLayout,
        vocab_size: int,
        config: GuideConfig,
        device: torch.device,
        recorder: Recorder | None = None,
        lookup: native.LookupSource | None = None,
        executor: ExecutorFactory = native_executor,
    ) -> None:
        """
        nodes:    of all slots, on the host
        lookup:   finds the drafts that are looked up; None where there are none
        executor: makes what runs the walks
        """
        self.window, self.recorder = window, recorder or Recorder()
        max_batch_size, num_nodes = nodes.tokens.shape
        shape = max_batch_size, num_nodes, (vocab_size + 31) // 32
        pinned = device.type == "cuda"
        self._host = GuideBuffers.allocate(*shape, torch.device("cpu"), pinned=pinned)
        if window.has_proposals:
            self._host = replace(
                self._host, proposals=ProposalBuffers.allocate(*shape, pinned=pinned)
            )
        self.buffers = self._host
        self.forward_stream: torch.cuda.Stream | None = None
        self._grammar_torch_stream: torch.cuda.Stream | None = None
        self._forward: native.Stream
        self._grammar: native.Stream
        self._herald: native.Stream  # so that the forward stream's kernels go on one after another
        if device.type == "cuda":
            self.buffers, self._rows_on_bus = (
                self._host.on_device(device),
                self._host.rows_on(device),
            )
            self.forward_stream, self._grammar_torch_stream = (
                torch.cuda.Stream(device),
                torch.cuda.Stream(device),
            )
            self._herald_torch_stream = torch.cuda.Stream(device)
            self._forward = native.CudaStream(self.forward_stream.cuda_stream, "forward")
            self._grammar = native.CudaStream(self._grammar_torch_stream.cuda_stream, "grammar")
            self._herald = native.CudaStream(self._herald_torch_stream.cuda_stream, "herald")
        else:
            self._forward, self._grammar = (
                native.CallerStream("forward"),
                native.HostStream("grammar"),
            )
            self._herald = self._forward
        if config.callbacks == "polling" or (config.callbacks is None and device.type == "cuda"):
            words = torch.zeros(
                2 * _MOST_POLLED, dtype=torch.int32, pin_memory=device.type == "cuda"
            )
            self._grammar = native.PollingStream(
                self._grammar, words.data_ptr(), _MOST_POLLED, words
            )
        self._tokens_ready = self._forward.make_event("tokens ready")
        self._rows_ready = self._grammar.make_event("rows ready")
        self._needed_reset = self._grammar.make_event("needed reset")
        self._wait_announced = self._forward.make_event("wait announced")
        self._wait_known = self._herald.make_event("wait known")
        self._vocab_size, self._launched, self._is_announced = vocab_size, 0, False
        self.exposed_s = None if self.forward_stream else 0.0
        self._executor = executor(self._host, nodes, window, vocab_size, config, lookup)
        self._callbacks = self._executor.callbacks()
        if self.recorder.max_spans:
            self._executor.log_callbacks(self.recorder.max_spans)

    def on_forward_stream(self) -> AbstractContextManager[object]:
        """Makes it torch's current stream, and its device the current one, on whatever thread.
        Everything that is launched is launched inside."""
        return (
            nullcontext() if self.forward_stream is None else torch.cuda.stream(self.forward_stream)
        )

    def submit(self, snapshot: GuideSnapshot) -> None:
        """Hand the next iteration's snapshot to the callbacks."""
        started = [(start.slot, self._native(start.matcher)) for start in snapshot.started]
        texts = (
            {start.slot: start.token_ids for start in snapshot.started}
            if self.window.num_lookup
            else {}
        )
        limits = {
            start.slot: start.window.limits
            for start in snapshot.started
            if start.window is not None and self.window.is_path
        }  # of a tree the step leaves nodes out
        self._executor.submit(
            started,
            snapshot.continued,
            texts,
            limits,
            None if snapshot.window is None else snapshot.window.limits,
        )

    def launch(self, callback: int, num_slots: int, num_nodes: int | None = None) -> None:
        """Let the grammar stream run callback 0 … K, or K + 1, once the forward stream has come
        this far.

        Callback 0 makes the target rows complete; callback j > 0 follows the golden token or draft
        j - 1 of the draft head, or the nodes expanded at that depth, and fills what may follow.
        Where there are proposals, each is behind the token that it follows before the forward
        stream goes on from `wait_rows`, and callback K + 1 takes the last draft for their sake.
        num_slots: bound of the slots in this iteration; on a GPU only their rows are copied
        num_nodes: nodes that this iteration verifies, for callback 0; None: all
        """
        self._launched = callback
        self._forward.record(self._tokens_ready)
        self._grammar.wait(self._tokens_ready)
        if callback == 0:
            self._grammar.write_value(self._host.needed.data_ptr(), 0)
            self._grammar.record(self._needed_reset)
        with self._on_grammar_stream():
            self.recorder.grammar("wait tokens")
            self._grammar.launch(self._callbacks[callback])
            self.recorder.grammar(f"callback {callback}")
            if self._grammar_torch_stream is not None:
                self._copy_rows(callback, num_slots, num_nodes)
            self.recorder.grammar("copy rows")
        self._grammar.record(self._rows_ready)

    def announce_wait(self) -> None:
        """The forward stream will soon wait for the callback launched last: from here on that waits
        for rows no longer than target_wait_us or draft_wait_us. A `wait_rows` must follow."""
        self._forward.record(self._wait_announced)
        self._herald.wait(self._wait_announced)
        self._herald.wait(self._needed_reset)
        self._herald.write_value(self._host.needed.data_ptr(), self._launched + 1)
        self._herald.record(self._wait_known)
        self._is_announced = True

    def wait_rows(self) -> None:
        """Let the forward stream wait for the callback launched last."""
        start = time.perf_counter()
        if self._is_announced:
            self._forward.wait(self._wait_known)
            self._is_announced = False
        self._forward.wait(self._rows_ready)
        if self.exposed_s is not None:
            self.exposed_s += time.perf_counter() - start
        self.recorder.forward("wait rows")

    def errors(self, slots: Iterable[int]) -> dict[int, MatcherError]:
        """Errors latched for these slots. Raises EngineError when a callback itself failed."""
        self._grammar.check()
        self._executor.check()
        found = ((slot, self._executor.error(slot)) for slot in slots)
        return {slot: MatcherError(message) for slot, message in found if message is not None}

    def abandon(self) -> None:
        """An iteration failed: wait for the callbacks under way, and forget those that will not
        come.

        Raises EngineError where the grammar stream does not come to its end.
        """
        self._grammar.synchronize(_ABANDON_TIMEOUT_S)
        self._executor.discard_snapshots()

    def detach(self, slot: int) -> None:
        """Drop the slot's walk; pending work is dropped with it."""
        self._executor.detach(slot)

    def is_idle(self, slot: int) -> bool:
        """True when no worker is inside the slot's matcher any more."""
        return self._executor.is_idle(slot)

    def counters(self) -> dict[str, int]:
        """The executor's counters: fills, accepts, rollbacks, held slots, times in nanoseconds."""
        counters = self._executor.counters()
        return {name: getattr(counters, name) for name in dir(counters) if not name.startswith("_")}

    def take_callback_times(self) -> list[tuple[int, int, int, int]]:
        """Iteration, index, begin and end (ns) of the callbacks since the last call; none without a
        recorder."""
        return self._executor.take_callback_spans()

    def _on_grammar_stream(self) -> AbstractContextManager[object]:
        return (
            nullcontext()
            if self._grammar_torch_stream is None
            else torch.cuda.stream(self._grammar_torch_stream)
        )

    def _copy_rows(self, callback: int, num_slots: int, num_nodes: int | None) -> None:
        """To the device: all rows that are verified after callback 0, since late ones have come by
        then; else those just filled."""
        if callback > 0 and self.window.has_proposals:
            return self._copy_draft_rows(callback, num_slots)
        if not self.window.is_path:
            begins = self.window.stages
            places = (
                slice(begins[callback - 1], begins[callback]) if callback else slice(0, begins[-1])
            )
            copy_guided_rows(
                self.buffers.bitmask[places, :num_slots],
                *(rows[places, :num_slots] for rows in self._rows_on_bus),
            )
        else:
            for node in (
                range(num_nodes or len(self._host.bitmask)) if callback == 0 else (callback - 1,)
            ):
                self.buffers.bitmask[node, :num_slots].copy_(
                    self._host.bitmask[node, :num_slots], non_blocking=True
                )
        self.buffers.guided.copy_(self._host.guided, non_blocking=True)
        if callback == 0:
            self.buffers.held.copy_(self._host.held, non_blocking=True)

    def _copy_draft_rows(self, callback: int, num_slots: int) -> None:
        host, device = self._host.proposals, self.buffers.proposals
        assert host is not None and device is not None
        if callback <= self.window.num_model:
            device.draft_rows[:num_slots].copy_(host.draft_rows[:num_slots], non_blocking=True)
            device.draft_guided.copy_(host.draft_guided, non_blocking=True)

    def _native(self, matcher: Matcher | native.Matcher | None) -> native.Matcher | None:
        if matcher is None or isinstance(matcher, native.Matcher):
            return matcher
        return native.PythonMatcher(matcher, self._vocab_size)
