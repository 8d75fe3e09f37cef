"""The grammar executor with matchers written in Python, on a host stream beside a caller stream."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from chain_matcher import END, VOCAB, WORDS, ChainMatcher

from benchmarks.soaks.spinners import Spinners
from specguide import native
from specguide.errors import EngineError


class Rig:
    """An executor with its buffers and the two streams of an iteration."""

    def __init__(
        self,
        max_batch_size: int = 2,
        num_draft_tokens: int = 2,
        deadline_us: int = 10_000_000,
        num_threads: int = 2,
        draft_wait_us: int | None = None,
    ) -> None:
        nodes = num_draft_tokens + 1
        self.rows = torch.zeros(nodes, max_batch_size, WORDS, dtype=torch.int32)
        self.fill_ids = torch.full((nodes, max_batch_size), 9, dtype=torch.int64)
        self.held = torch.full((max_batch_size,), 9, dtype=torch.uint8)
        self.tokens = torch.full((max_batch_size, nodes), -1, dtype=torch.int32)
        self.num_accepted = torch.zeros(max_batch_size, dtype=torch.int32)
        self.needed = torch.zeros(1, dtype=torch.int32)
        self.bitmask = self.rows.numpy()
        self.executor = native.GrammarExecutor(
            native.GrammarBuffers(
                limits=native.DraftLimits(num_draft_tokens=num_draft_tokens),
                vocab_size=VOCAB,
                bitmask=self.bitmask,
                fill_ids=self.fill_ids.numpy(),
                held=self.held.numpy(),
                tokens=self.tokens.numpy(),
                num_accepted=self.num_accepted.numpy(),
                needed=self.needed.numpy(),
            ),
            native.ExecutorOptions(
                num_threads=num_threads, deadline_us=deadline_us, draft_wait_us=draft_wait_us
            ),
        )
        self.callbacks = self.executor.callbacks()
        self.forward, self.grammar = native.CallerStream("forward"), native.HostStream("grammar")
        self.tokens_ready, self.rows_ready = native.HostEvent("tokens"), native.HostEvent("rows")

    @property
    def guided(self) -> torch.Tensor:
        """1 where a row counts."""
        return (self.fill_ids != 0).int()

    def submit(
        self, started: dict[int, Any] | None = None, continued: tuple[int, ...] = ()
    ) -> None:
        wrap = {
            slot: matcher and native.PythonMatcher(matcher, VOCAB)
            for slot, matcher in (started or {}).items()
        }
        self.executor.submit(list(wrap.items()), continued)

    def call(self, index: int) -> None:
        self.forward.record(self.tokens_ready)
        self.grammar.wait(self.tokens_ready)
        self.grammar.launch(self.callbacks[index])
        self.grammar.record(self.rows_ready)
        self.forward.wait(self.rows_ready)

    def call_all(self) -> None:
        for index in range(len(self.callbacks)):
            self.call(index)

    def allowed(self, slot: int, node: int) -> list[int]:
        bits = np.unpackbits(self.rows[node, slot].numpy().view(np.uint8), bitorder="little")
        return [int(token) for token in np.flatnonzero(bits)]


def is_taken_up(rig: Rig) -> bool:
    """Begin the next iteration of slot 0, and say whether the slot is in it."""
    rig.submit(continued=(0,))
    rig.call(0)
    return int(rig.held[0]) == 0


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.001)


def test_an_iteration_fills_the_row_of_each_node_once() -> None:
    rig, matcher = Rig(), ChainMatcher()
    rig.submit({0: matcher, 1: None})
    rig.call(0)
    assert rig.allowed(0, 0) == [0]
    for node in (0, 1):
        rig.tokens[0, node] = node
        rig.call(node + 1)
    assert rig.allowed(0, 0) == [1, END] and rig.allowed(0, 1) == [2]
    rig.tokens[0, 2] = 2
    rig.submit(continued=(0, 1))
    rig.call(0)
    assert rig.allowed(0, 2) == [3]
    assert rig.guided.tolist() == [[1, 0], [1, 0], [1, 0]] and rig.held.tolist() == [0, 0]
    rig.num_accepted[0], rig.tokens[0, 0] = 1, 2  # draft 1 accepted, draft 2 rejected, golden 2
    rig.call(1)
    assert matcher.tokens == [-1, 0, 1, 2] and rig.allowed(0, 0) == [3]
    counters = rig.executor.counters()
    assert (counters.fills, counters.accepts, counters.rollbacks, counters.iterations) == (
        5,
        4,
        1,
        2,
    )
    assert (counters.max_fills, counters.max_accepts, counters.max_rollbacks) == (3, 2, 1)
    assert counters.callback_ns > 0 and counters.busy_ns > 0


def test_without_drafts_one_callback_is_an_iteration() -> None:
    rig = Rig(num_draft_tokens=0)
    assert len(rig.callbacks) == 1
    rig.submit({0: ChainMatcher()})
    rig.call(0)
    for token in range(4):
        rig.tokens[0, 0] = token
        rig.submit(continued=(0,))
        rig.call(0)
        assert rig.allowed(0, 0)[0] == token + 1


@pytest.mark.parametrize("accepted", [True, False])
def test_an_end_token_among_the_drafts(accepted: bool) -> None:
    rig, matcher = Rig(), ChainMatcher()
    rig.submit({0: matcher})
    rig.call(0)
    for node, token in ((0, 0), (1, END)):
        rig.tokens[0, node] = token
        rig.call(node + 1)
    rig.tokens[0, 2] = 17  # junk behind the end
    rig.submit(continued=(0,))
    rig.call(0)
    assert rig.guided[:, 0].tolist() == [1, 0, 0] and rig.held[0] == 0
    rig.num_accepted[0], rig.tokens[0, 0] = (2, 33) if accepted else (0, 1)
    rig.call(1)
    assert rig.executor.error(0) is None
    assert rig.guided[0, 0] == (0 if accepted else 1)
    assert matcher.tokens == ([-1, 0, END] if accepted else [-1, 0, 1])


def test_a_python_exception_ends_only_its_own_request() -> None:
    def fail() -> None:
        raise LookupError("lost my place")

    rig = Rig()
    rig.submit({0: ChainMatcher(fail), 1: ChainMatcher()})
    rig.call(0)
    assert rig.executor.error(0) == "the matcher failed after 0 tokens: LookupError: lost my place"
    assert rig.executor.error(1) is None
    assert rig.held.tolist() == [1, 0] and rig.guided.tolist() == [[0, 1], [0, 0], [0, 0]]
    rig.executor.detach(0)
    assert rig.executor.error(0) is None and rig.executor.is_idle(0)


@pytest.mark.parametrize(
    ("golden", "message"),
    [
        (7, "refused token 7, which its row had allowed, after 0 tokens"),
        (-1, "allows no token after 0 tokens"),
    ],
)
def test_a_golden_token_that_cannot_be(golden: int, message: str) -> None:
    rig = Rig()
    rig.submit({0: ChainMatcher()})
    rig.call(0)
    rig.tokens[0, 0] = golden
    rig.call(1)
    error = rig.executor.error(0)
    assert error is not None and message in error


def test_a_late_row_holds_its_slot_and_no_other() -> None:
    go = threading.Event()
    late, early = ChainMatcher(lambda: (go.wait(), None)[1]), ChainMatcher()
    rig = Rig(deadline_us=200_000)
    rig.submit({0: late, 1: early})
    begin = time.monotonic()
    rig.call(0)
    assert time.monotonic() - begin < 10
    assert rig.held.tolist() == [1, 0] and rig.guided[:, 0].tolist() == [0, 0, 0]
    begin = time.monotonic()
    for token in range(4):  # the slot is not waited for again
        rig.tokens[1] = torch.tensor([token, -1, -1])
        rig.call(1)
        rig.call(2)
        rig.submit(continued=(0, 1))
        rig.call(0)
        assert rig.held.tolist() == [1, 0]
    assert time.monotonic() - begin < 4 * 0.2
    go.set()
    wait_for(lambda: is_taken_up(rig))
    assert rig.allowed(0, 0) == [0] and late.num_fills == 1
    assert rig.executor.counters().held >= 5


def test_a_late_draft_row_is_free_for_the_drafter_only() -> None:
    go = threading.Event()
    matcher = ChainMatcher(lambda: (matcher.num_fills == 2 and go.wait(), None)[1])
    rig = Rig(deadline_us=200_000)
    rig.submit({0: matcher})
    rig.call(0)
    assert rig.held[0] == 0
    for node in (0, 1):
        rig.tokens[0, node] = node
        rig.call(node + 1)
        assert rig.guided[node, 0] == 0
    assert rig.executor.counters().late_draft_rows == 2
    rig.tokens[0, 2] = 2
    go.set()
    wait_for(lambda: matcher.num_fills == 3)
    wait_for(lambda: is_taken_up(rig))
    assert rig.guided[:, 0].tolist() == [1, 1, 1]
    assert [rig.allowed(0, node) for node in range(3)] == [[1, END], [2], [3]]


def test_a_slot_is_given_away_when_its_last_operation_is_over() -> None:
    go, entered = threading.Event(), threading.Event()
    matcher = ChainMatcher(lambda: (entered.set(), go.wait(), None)[2])
    alive = weakref.ref(matcher)
    rig = Rig(max_batch_size=1, deadline_us=1000)
    rig.submit({0: matcher})
    rig.call(0)
    del matcher
    assert entered.wait(30)
    rig.executor.detach(0)
    assert not rig.executor.is_idle(0)
    with pytest.raises(ValueError, match="slot 0 is busy"):
        rig.submit({0: ChainMatcher()})
    go.set()
    wait_for(lambda: rig.executor.is_idle(0))
    native.drain_releases()
    gc.collect()
    assert alive() is None
    rig.submit({0: ChainMatcher()})


def test_detaching_releases_the_matcher_also_when_a_snapshot_still_names_it() -> None:
    rig, matcher = Rig(), ChainMatcher()
    alive = weakref.ref(matcher)
    rig.submit({0: matcher})
    rig.call_all()
    rig.submit(continued=(0,))
    del matcher
    rig.executor.detach(0)
    gc.collect()
    assert alive() is None and rig.executor.is_idle(0)
    rig.call_all()
    assert rig.held[0] == 0 and rig.guided[:, 0].tolist() == [0, 0, 0]


def test_callbacks_work_while_python_is_busy() -> None:
    with Spinners(1):
        rig = Rig()
        rig.submit({0: ChainMatcher()})
        rig.call(0)
        assert rig.allowed(0, 0) == [0]


def test_a_callback_without_a_snapshot_is_the_executors_error() -> None:
    rig = Rig()
    rig.call_all()
    with pytest.raises(EngineError, match="submit one for each iteration"):
        rig.executor.check()


def valid_arrays() -> dict[str, np.ndarray]:
    """Arrays of one slot, one draft and 32 tokens."""
    return {
        "bitmask": np.zeros((2, 1, 1), np.int32),
        "fill_ids": np.zeros((2, 1), np.int64),
        "held": np.zeros(1, np.uint8),
        "needed": np.zeros(1, np.int32),
        "tokens": np.zeros((1, 2), np.int32),
        "num_accepted": np.zeros(1, np.int32),
    }


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_threads", 0),
        ("deadline_us", 0),
        ("draft_wait_us", -1),
        ("target_wait_us", -1),
        ("num_draft_tokens", -1),
        ("num_forced_tokens", -1),
        ("num_lookup_tokens", 1),
        ("vocab_size", 0),
        ("num_kept_rows", 7),  # two rows at once, and new numbers meanwhile
    ],
)
def test_numbers_that_the_executor_refuses(field: str, value: int) -> None:
    limits = {"num_draft_tokens": 1} | ({field: value} if field.endswith("_tokens") else {})
    options = {"num_threads": 1, "deadline_us": 1000}
    options |= {field: value} if field in (*options, "draft_wait_us", "target_wait_us") else {}
    with pytest.raises(ValueError):
        native.GrammarExecutor(
            native.GrammarBuffers(
                limits=native.DraftLimits(**limits),
                vocab_size=value if field == "vocab_size" else 32,
                num_kept_rows=value if field == "num_kept_rows" else 0,
                **valid_arrays(),
            ),
            native.ExecutorOptions(**options),
        )


@pytest.mark.parametrize("name", list(valid_arrays()))
def test_arrays_are_checked_by_name(name: str) -> None:
    def refused(arrays: dict[str, np.ndarray]) -> str:
        with pytest.raises(ValueError) as caught:
            native.GrammarBuffers(
                limits=native.DraftLimits(num_draft_tokens=1), vocab_size=32, **arrays
            )
        return str(caught.value)

    arrays = valid_arrays()
    assert f"{name} must be a contiguous array" in refused(
        arrays | {name: arrays[name].astype(np.float64)}
    )
    if name != "held":  # which says how many slots there are
        assert f"{name} must be" in refused(
            arrays | {name: np.concatenate([arrays[name]] * 2, axis=-1)}
        )
    assert refused({key: value for key, value in arrays.items() if key != name})
    assert "no place for other" in refused(arrays | {"other": arrays["held"]})


def test_captured_callbacks_keep_the_executor_and_its_buffers() -> None:
    rig, matcher = Rig(), ChainMatcher()
    alive = weakref.ref(rig.bitmask)
    rig.grammar.begin_capture()
    for callback in rig.callbacks:
        rig.grammar.launch(callback)
    graph, stream = rig.grammar.end_capture(), rig.grammar
    rig.submit({0: matcher})
    tokens, executor = rig.tokens, rig.executor
    del rig, callback
    gc.collect()
    assert alive() is not None
    tokens[0] = torch.tensor([0, 1, 2])
    graph.replay(stream)
    stream.synchronize()
    assert matcher.tokens == [-1, 0, 1] and executor.error(0) is None
    del executor, graph
    gc.collect()
    native.drain_releases()
    assert alive() is None


def test_a_python_matcher_keeps_the_contract_from_python() -> None:
    matcher = native.PythonMatcher(ChainMatcher(), VOCAB)
    row = np.full(WORDS, -1, dtype=np.int32)
    assert matcher.accept(0) and not matcher.accept(5)
    matcher.fill(row)
    assert row.view(np.uint32).tolist() == [2, 1 << (END - 32)]
    assert matcher.accept(END) and matcher.is_terminated
    matcher.rollback(1)
    assert not matcher.is_terminated and matcher.forced_tokens() == []
    matcher.fill(row.ctypes.data)
    with pytest.raises(ValueError, match="int32 buffer"):
        matcher.fill(np.zeros(WORDS, dtype=np.int64))
    with pytest.raises(RuntimeError, match="AssertionError"):
        matcher.rollback(9)


def test_a_python_matcher_that_resizes_its_row_fails_alone() -> None:
    class Shrinking(ChainMatcher):
        def fill(self, row: Any) -> None:
            row.resize(1, refcheck=False)

    with pytest.raises(RuntimeError, match="cannot resize this array"):
        native.PythonMatcher(Shrinking(), VOCAB).fill(np.zeros(WORDS, dtype=np.int32))


def test_the_times_of_callbacks_are_on_pythons_clock() -> None:
    rig = Rig(max_batch_size=1)
    rig.submit({0: ChainMatcher()})
    rig.call_all()
    assert rig.executor.take_callback_spans() == []
    rig.executor.log_callbacks(8)
    begin_ns = time.perf_counter_ns()
    rig.submit(continued=(0,))
    rig.call_all()
    spans = rig.executor.take_callback_spans()
    assert [span[:2] for span in spans] == [(2, 0), (2, 1), (2, 2)]
    times = [begin_ns, *(time for span in spans for time in span[2:]), time.perf_counter_ns()]
    assert times == sorted(times)
    with pytest.raises(ValueError, match="capacity"):
        rig.executor.log_callbacks(0)
