"""Owns the walks of all slots as Python callbacks, with which the native grammar executor is
compared."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from benchmarks.baselines.limits import check_chains
from benchmarks.baselines.python_walk import PythonWalk
from specguide import native
from specguide.config.resolved import CallbackConfig
from specguide.errors import EngineError
from specguide.guided.grammar_stream.buffers import GrammarBuffers, WalkedNodes
from specguide.guided.grammar_stream.executor import Walked
from specguide.guided.grammar_stream.stream import GrammarCounters
from specguide.guided.matcher import Row

_NOTHING: Mapping[int, Any] = MappingProxyType({})
Snapshot = tuple[tuple[PythonWalk, bool], ...]
"""The walks of one iteration, and whether each starts there."""


class PythonGrammarExecutor:
    """`native.GrammarExecutor` without its C++: each callback takes the GIL and walks the slots one
    after another.

    There are no proposals, there is no deadline, nor is `needed` looked at: a slow matcher delays
    the whole batch, as does any Python thread that holds the GIL. That is what a comparison with
    the native executor measures; all else has the same meaning.

    buffers, nodes: on the host
    """

    def __init__(self, buffers: GrammarBuffers, nodes: WalkedNodes, vocab_size: int) -> None:
        self._vocab_size = vocab_size
        max_batch_size, self._num_nodes = nodes.tokens.shape
        self._bitmask, self._fill_ids, self._held, self._tokens, self._num_accepted = (
            tensor.numpy()
            for tensor in (
                buffers.bitmask,
                buffers.fill_ids,
                buffers.held,
                nodes.tokens,
                nodes.num_accepted,
            )
        )
        self._walks: list[PythonWalk | None] = [None] * max_batch_size
        self._snapshots: deque[Snapshot] = deque()
        self._current: Snapshot = ()
        self._iteration = 0
        self._error: str | None = None
        self._counters: Counter[str] = Counter()
        self._spans: deque[tuple[int, int, int, int]] = deque(maxlen=0)

    @classmethod
    def of(
        cls,
        host: GrammarBuffers,
        walked: Walked,
        config: CallbackConfig,
    ) -> PythonGrammarExecutor:
        """As `native_executor`. Raises InvalidParams for drafts that it cannot follow."""
        check_chains(walked.layout, "Python callbacks follow")
        return cls(host, walked.nodes, walked.vocab_size)

    def submit(
        self,
        started: Sequence[tuple[int, native.Matcher | None]],
        continued: Sequence[int],
        texts: Mapping[int, Sequence[int]] = _NOTHING,
        limits: Mapping[int, native.DraftLimits] = _NOTHING,
        iteration_limits: native.DraftLimits | None = None,
        restarts: Mapping[int, Callable[[list[int]], native.Matcher]] = _NOTHING,
    ) -> None:
        """Queue the snapshot of one more iteration; a matcher that fails is not made again. Raises
        ValueError for a slot that is busy or has no request, and for an iteration that does not
        draft all drafts."""
        if iteration_limits not in (None, native.DraftLimits(num_draft_tokens=self._num_nodes - 1)):
            raise ValueError(f"Python callbacks follow all drafts, found {iteration_limits}")
        for slot, _ in started:
            if self._walks[slot] is not None:
                raise ValueError(f"slot {slot} is busy: detach it first")
        for slot in continued:
            if self._walks[slot] is None:
                raise ValueError(f"slot {slot} has no request to continue")
        for slot, matcher in started:
            rows = [self._row(slot, node) for node in range(self._num_nodes)]
            self._walks[slot] = PythonWalk(slot, matcher, rows, self._vocab_size, self._counters)
        named = [*((slot, True) for slot, _ in started), *((slot, False) for slot in continued)]
        self._snapshots.append(
            tuple((walk, is_start) for slot, is_start in named if (walk := self._walks[slot]))
        )

    def discard_snapshots(self) -> None:
        """Drop the snapshots of iterations that will not run. Only while no callback runs."""
        self._snapshots.clear()

    def detach(self, slot: int) -> None:
        """Take the request out of the slot; waits for its matcher where that is at work."""
        walk, self._walks[slot] = self._walks[slot], None
        if walk is not None:
            walk.detach()

    def is_idle(self, slot: int) -> bool:
        """True when another request may start in the slot."""
        return self._walks[slot] is None

    def error(self, slot: int) -> str | None:
        """Why the slot's request failed; it is held until it is detached."""
        walk = self._walks[slot]
        return walk.error if walk is not None else None

    def check(self) -> None:
        """Raise EngineError if the executor as a whole failed."""
        if self._error is not None:
            raise EngineError(self._error)

    def callbacks(self) -> list[native.HostFunction]:
        """The K + 1 callbacks of an iteration, to be launched in order."""
        return [
            native.python_host_function(
                self._run_callback, (index,), {}, f"Python grammar callback {index}"
            )
            for index in range(self._num_nodes)
        ]

    def counters(self) -> GrammarCounters:
        """Totals since construction. No row is late or guessed here, and a slot is held only where
        its walk has failed."""
        return GrammarCounters(**self._counters)

    def log_callbacks(self, capacity: int) -> None:
        """Keep the times of the last `capacity` callbacks from now on."""
        self._spans = deque(maxlen=capacity)

    def take_callback_spans(self) -> list[tuple[int, int, int, int]]:
        """(iteration, index, begin, end) of each callback since the last call; nanoseconds of
        perf_counter_ns."""
        return [self._spans.popleft() for _ in range(len(self._spans))]

    def _row(self, slot: int, node: int) -> Row:
        row: Row = self._bitmask[node, slot]
        return row

    def _run_callback(self, index: int) -> None:
        begin = time.perf_counter_ns()
        try:
            if index == 0:
                self._begin_iteration()
            else:
                self._advance(index - 1)
        except Exception as error:
            self._error = self._error or f"grammar callback {index} failed: {error}"
        end = time.perf_counter_ns()
        self._counters["callback_ns"] += end - begin
        self._spans.append((self._iteration, index, begin, end))

    def _begin_iteration(self) -> None:
        """Callback 0, beside the target forward: complete the paths, then say which rows and which
        slots count."""
        self._current = ()
        if not self._snapshots:
            raise EngineError(
                "an iteration began without a snapshot: submit one for each iteration"
            )
        self._current = self._snapshots.popleft()
        self._iteration += 1
        for walk, is_start in self._current:
            if walk.next_node == self._num_nodes - 1:
                self._take_node(walk, walk.next_node)
            if is_start:
                walk.start(self._iteration)
        for walk, _ in self._current:
            self._set_target_flags(walk)

    def _advance(self, node: int) -> None:
        """Callback 1 … K, behind the verification or a draft step: take the token of `node` and
        fill its row."""
        for walk, _ in self._current:
            if walk.next_node == node and self._take_node(walk, node):
                self._fill_ids[node, walk.slot] = walk.fill_id(node)

    def _take_node(self, walk: PythonWalk, node: int) -> bool:
        """False where there is nothing to do: the request is over, or the step held its slot."""
        if walk.is_over:
            return False
        token, num_accepted = int(self._tokens[walk.slot, node]), int(self._num_accepted[walk.slot])
        if node == 0 and num_accepted < 0:  # its path stays as it is
            walk.next_node = self._num_nodes
            return False
        if node == 0:
            walk.golden(self._iteration, num_accepted, token)
        else:
            walk.draft(self._iteration, node, token)
        walk.next_node = node + 1
        return True

    def _set_target_flags(self, walk: PythonWalk) -> None:
        counts = not (walk.is_free or walk.is_detached or walk.is_ended)
        is_ready = counts and walk.error is None
        for node in range(self._num_nodes):
            self._fill_ids[node, walk.slot] = walk.fill_id(node) if is_ready else 0
        self._held[walk.slot] = counts and not is_ready
        if is_ready:
            walk.next_node = 0
            self._counters["iterations"] += 1
