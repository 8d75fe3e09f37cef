"""Host functions on CUDA streams: eager and captured, payload lifetimes, the executor's callbacks
inside a graph."""

from __future__ import annotations

import functools
import gc
import threading
import time
import weakref
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from host_functions import Payload, captured, wait_until_gone

from benchmarks.soaks.spinners import Spinners
from specguide import native
from specguide.errors import EngineError
from specguide.guided.grammar_stream.hostfunc import check, hostfunc

pytestmark = pytest.mark.gpu


@pytest.fixture
def busy_python() -> Iterator[None]:
    """Other Python threads that keep the GIL contended."""
    with Spinners(3):
        yield


def test_captured_twice_and_replayed_ten_times_gives_twenty(busy_python: None) -> None:
    count = 0

    @hostfunc
    def increase() -> None:
        nonlocal count
        count += 1

    def work() -> None:
        increase()
        increase()

    graph = captured(work)
    assert count == 0
    for _ in range(10):
        graph.replay()
    torch.cuda.synchronize()
    check()
    assert count == 20


def test_an_eager_call_runs_in_stream_order_and_frees_its_payload() -> None:
    payload, seen = Payload(), []
    alive = weakref.ref(payload)
    source, target = torch.zeros(1, device="cuda"), torch.zeros(1, pin_memory=True)
    hostfunc(lambda given: seen.append((type(given).__name__, float(target))))(payload)
    source += 3
    target.copy_(source, non_blocking=True)
    hostfunc(lambda: seen.append(float(target)))()
    del payload
    torch.cuda.synchronize()
    assert seen == [("Payload", 0.0), 3.0]
    wait_until_gone(alive)


def test_a_captured_payload_lives_exactly_as_long_as_the_graph() -> None:
    payload, seen = Payload(), []
    alive = weakref.ref(payload)
    look = hostfunc(lambda given: seen.append(given is alive()))
    graph = captured(functools.partial(look, payload))
    del payload
    gc.collect()
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    native.drain_releases()
    assert alive() is not None and seen == [True] * 3
    del graph
    wait_until_gone(alive)


def test_what_a_captured_function_raises_is_latched() -> None:
    @hostfunc
    def broken() -> None:
        raise ValueError("boom")

    graph = captured(broken)
    check()
    graph.replay()
    torch.cuda.synchronize()
    with pytest.raises(EngineError, match=r"(?s)Traceback.*ValueError: boom"):
        check()
    check()


def test_streams_order_each_other_by_events_and_waits_are_bounded() -> None:
    first, second = (
        native.CudaStream(torch.cuda.Stream().cuda_stream, name) for name in ("first", "second")
    )
    log: list[str] = []
    go = threading.Event()
    ready = first.make_event("ready")
    assert ready.query()
    first.launch(
        native.python_host_function(lambda: (go.wait(), log.append("first")), (), {}, "wait")
    )
    first.record(ready)
    second.wait(ready)
    second.launch(native.python_host_function(log.append, ("second",), {}, "append"))
    with pytest.raises(EngineError, match="'second' did not finish within"):
        second.synchronize(0.05)
    with pytest.raises(EngineError, match="'ready' was not reached within"):
        ready.synchronize(0.05)
    go.set()
    second.synchronize()
    assert log == ["first", "second"] and ready.query() and not first.is_capturing


def test_a_captured_write_of_a_word_happens_in_its_turn_at_each_replay() -> None:
    word, seen = torch.zeros(1, dtype=torch.int32, pin_memory=True), []
    look = hostfunc(lambda: seen.append(int(word)))

    def work() -> None:
        stream = native.CudaStream(torch.cuda.current_stream().cuda_stream)
        look()
        stream.write_value(word.data_ptr(), 7)
        look()
        stream.write_value(word.data_ptr(), -1)

    graph = captured(work)
    assert int(word) == 0
    for _ in range(3):
        graph.replay()
    work()
    torch.cuda.synchronize()
    check()
    assert seen == [0, 7, -1, 7, -1, 7, -1, 7] and int(word) == -1


def test_a_captured_draft_callback_waits_only_as_long_as_its_row_is_needed() -> None:
    executor, (_, fill_ids, _, tokens, _, needed), _ = make_executor(draft_wait_us=0)
    callbacks, go = executor.callbacks(), threading.Event()
    side = torch.cuda.Stream()

    class SlowMatcher(ChainMatcher):
        def fill(self, row: torch.Tensor) -> None:
            if len(self.tokens) > 1:
                go.wait(60)
            super().fill(row)

    def work() -> None:
        forward = torch.cuda.current_stream()
        for index in range(2):
            side.wait_stream(forward)
            if index == 0:
                native.CudaStream(side.cuda_stream).write_value(needed.data_ptr(), 0)
            native.CudaStream(side.cuda_stream, "grammar").launch(callbacks[index])
            if index > 0:
                native.CudaStream(forward.cuda_stream).write_value(needed.data_ptr(), index + 1)
            forward.wait_stream(side)

    graph = captured(work)
    executor.submit([(0, native.PythonMatcher(SlowMatcher(), 32))], [])
    start = time.perf_counter()
    graph.replay()
    torch.cuda.synchronize()
    assert time.perf_counter() - start < 4
    assert (
        int(fill_ids[0, 0]) == 0
        and executor.counters().late_draft_rows == 1
        and int(needed[0, 0]) == 2
    )
    go.set()
    executor.submit([], [0])
    tokens[0] = torch.tensor([1, -1])
    graph.replay()
    torch.cuda.synchronize()
    executor.check()
    assert executor.error(0) is None and executor.counters().held == 0


def test_events_of_another_kind_are_refused() -> None:
    stream = native.CudaStream(torch.cuda.current_stream().cuda_stream)
    with pytest.raises(ValueError, match="is no CUDA event"):
        stream.record(native.HostEvent("host"))
    with pytest.raises(ValueError, match="is no host event"):
        native.HostStream().record(stream.make_event())


class ChainMatcher:
    """Token t may be followed by t + 1 alone; bit t + 1 of the row."""

    is_terminated = False

    def __init__(self) -> None:
        self.tokens = [-1]

    def accept(self, token: int) -> bool:
        self.tokens.append(token)
        return token == self.tokens[-2] + 1

    def fill(self, row: torch.Tensor) -> None:
        row[:] = 0
        row[0] = 1 << (self.tokens[-1] + 1)

    def rollback(self, n: int) -> None:
        del self.tokens[-n:]

    def forced_tokens(self) -> list[int]:
        return []


def make_executor(
    draft_wait_us: int | None = None,
) -> tuple[native.GrammarExecutor, tuple[torch.Tensor, ...], np.ndarray]:
    """One slot, one draft token, 32 token ids; bitmask, fill_ids, held, tokens, num_accepted,
    needed, and the array of the first."""
    buffers = tuple(
        torch.zeros(1, size, dtype=dtype, pin_memory=True)
        for size, dtype in (
            (2, torch.int32),
            (2, torch.int64),
            (1, torch.uint8),
            (2, torch.int32),
            (1, torch.int32),
            (1, torch.int32),
        )
    )
    bitmask, fill_ids, held, tokens, num_accepted, needed = buffers
    array = bitmask.view(2, 1, 1).numpy()
    executor = native.GrammarExecutor(
        native.GrammarBuffers(
            limits=native.DraftLimits(num_draft_tokens=1),
            vocab_size=32,
            bitmask=array,
            fill_ids=fill_ids.view(2, 1).numpy(),
            held=held[0].numpy(),
            tokens=tokens.numpy(),
            num_accepted=num_accepted[0].numpy(),
            needed=needed[0].numpy(),
        ),
        native.ExecutorOptions(num_threads=2, deadline_us=5_000_000, draft_wait_us=draft_wait_us),
    )
    return executor, buffers, array


def test_captured_executor_callbacks_walk_with_the_graph(busy_python: None) -> None:
    """K = 1: both callbacks forked onto a second stream inside the capture, tokens and rows copied
    around them."""
    executor, (rows, _, _, tokens, num_accepted, _), _ = make_executor()
    callbacks = executor.callbacks()
    device_rows = torch.zeros(2, dtype=torch.int32, device="cuda")
    device_tokens = torch.zeros(2, dtype=torch.int32, device="cuda")
    accepted = torch.zeros(1, dtype=torch.int32, device="cuda")
    side = torch.cuda.Stream()

    def callback(index: int) -> None:
        grammar = native.CudaStream(side.cuda_stream, "grammar")
        side.wait_stream(torch.cuda.current_stream())
        grammar.launch(callbacks[index])
        with torch.cuda.stream(side):
            device_rows.copy_(rows.view(-1), non_blocking=True)
        torch.cuda.current_stream().wait_stream(side)

    def only_allowed(row: torch.Tensor) -> torch.Tensor:
        return torch.log2(row.double()).round().int()

    def iteration() -> None:
        callback(0)
        device_tokens[0:1] = only_allowed(
            device_rows[1:2]
        )  # the draft is always right: golden follows from row 1
        num_accepted[:, :1].copy_(accepted.view(1, 1), non_blocking=True)
        tokens.view(-1).copy_(device_tokens, non_blocking=True)
        callback(1)
        device_tokens[1:2] = only_allowed(device_rows[0:1])
        tokens.view(-1).copy_(device_tokens, non_blocking=True)

    only_allowed(device_rows)  # loads its kernels, which a capture may not
    graph = captured(iteration)
    matcher = ChainMatcher()
    executor.submit([(0, native.PythonMatcher(matcher, 32))], [])
    rows.view(-1)[1] = 1  # a prefill has row 0 alone, in which only token 0 is allowed
    graph.replay()
    torch.cuda.synchronize()
    accepted.fill_(1)
    for _ in range(5):
        executor.submit([], [0])
        graph.replay()
    torch.cuda.synchronize()
    executor.check()
    assert executor.error(0) is None and matcher.tokens == list(range(-1, 11))
    assert device_tokens.tolist() == [10, 11]
    counters = executor.counters()
    assert (counters.rollbacks, counters.max_fills, counters.max_accepts) == (0, 2, 2)


def test_a_graph_keeps_the_executor_and_its_buffers() -> None:
    executor, buffers, array = make_executor()
    alive = weakref.ref(array)

    def launch(callback: native.HostFunction) -> None:
        native.CudaStream(torch.cuda.current_stream().cuda_stream).launch(callback)

    graph = captured(functools.partial(launch, executor.callbacks()[0]))
    del executor, buffers, array
    native.drain_releases()
    assert alive() is not None
    graph.replay()
    torch.cuda.synchronize()
    del graph
    wait_until_gone(alive)
