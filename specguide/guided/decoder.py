"""Owns the grammar side of the iteration: the fixed-address buffers, the executor, the two streams and their events."""

from __future__ import annotations

import time
from collections.abc import Iterable

import torch

from specguide import env, native
from specguide.batch import GuideSnapshot
from specguide.config import GuideConfig
from specguide.errors import MatcherError
from specguide.guided.matcher import Matcher


class GuidedDecoder:
    """Runs the grammar walk of every slot beside the forward passes. N = K + 1 nodes a slot.

    bitmask:      int32 [max_batch_size · N, words], row slot · N + j says what may follow node j of the slot
    guided:       uint8 [max_batch_size · N], 1: the row counts; 0: its request is free there, kernels skip it
    held:         uint8 [max_batch_size], 1: target rows are late, this iteration accepts nothing for the slot
    tokens:       int32 [max_batch_size, N], golden token and drafts of each slot; -1 is no draft
    num_accepted: int32 [max_batch_size], drafts accepted by the last verification; -1: the slot was held

    The first three are written by the callbacks, the other two by the step.
    """

    def __init__(self, max_batch_size: int, num_draft_tokens: int, vocab_size: int, config: GuideConfig) -> None:
        num_nodes, num_words = num_draft_tokens + 1, (vocab_size + 31) // 32
        self.bitmask = torch.zeros(max_batch_size * num_nodes, num_words, dtype=torch.int32)
        self.guided = torch.zeros(max_batch_size * num_nodes, dtype=torch.uint8)
        self.held = torch.zeros(max_batch_size, dtype=torch.uint8)
        self.tokens = torch.zeros(max_batch_size, num_nodes, dtype=torch.int32)
        self.num_accepted = torch.zeros(max_batch_size, dtype=torch.int32)
        self.exposed_s = 0.0
        self._executor = native.GrammarExecutor(
            max_batch_size=max_batch_size, num_draft_tokens=num_draft_tokens, vocab_size=vocab_size,
            num_threads=config.num_threads or env.num_grammar_threads(), deadline_us=config.deadline_us,
            rows=self.bitmask.data_ptr(), guided=self.guided.data_ptr(), held=self.held.data_ptr(),
            tokens=self.tokens.data_ptr(), num_accepted=self.num_accepted.data_ptr(),
            owner=(self.bitmask, self.guided, self.held, self.tokens, self.num_accepted))
        self._callbacks = self._executor.callbacks()
        self._vocab_size = vocab_size
        self._forward_stream, self._grammar_stream = native.CallerStream("forward"), native.HostStream("grammar")
        self._tokens_ready, self._rows_ready = native.HostEvent("tokens ready"), native.HostEvent("rows ready")

    def submit(self, snapshot: GuideSnapshot) -> None:
        """Hand the next iteration's snapshot to the callbacks."""
        started = [(slot, self._native(matcher)) for slot, matcher in snapshot.started]
        self._executor.submit(started, list(snapshot.continued))

    def launch(self, callback: int) -> None:
        """Let the grammar stream run callback 0 … K once the forward stream has come this far.

        Callback 0 makes the target rows complete; callback j > 0 follows node j - 1 and fills its row.
        """
        self._forward_stream.record(self._tokens_ready)
        self._grammar_stream.wait(self._tokens_ready)
        self._grammar_stream.launch(self._callbacks[callback])
        self._grammar_stream.record(self._rows_ready)

    def wait_rows(self) -> None:
        """Let the forward stream wait for the callback launched last."""
        start = time.perf_counter()
        self._forward_stream.wait(self._rows_ready)
        self.exposed_s += time.perf_counter() - start

    def errors(self, slots: Iterable[int]) -> dict[int, MatcherError]:
        """Errors latched for these slots. Raises EngineError when a callback itself failed."""
        self._grammar_stream.check()
        self._executor.check()
        found = ((slot, self._executor.error(slot)) for slot in slots)
        return {slot: MatcherError(message) for slot, message in found if message is not None}

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

    def _native(self, matcher: Matcher | native.Matcher | None) -> native.Matcher | None:
        if matcher is None or isinstance(matcher, native.Matcher):
            return matcher
        return native.PythonMatcher(matcher, self._vocab_size)
