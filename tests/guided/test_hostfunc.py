"""`@hostfunc` on host streams: eager and captured calls, and how long a payload lives."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest
import torch

from specguide import native
from specguide.errors import EngineError, InvalidParams
from specguide.guided.grammar_stream.hostfunc import check, hostfunc


class Payload:
    pass


def test_captured_twice_and_replayed_ten_times_gives_twenty() -> None:
    count = 0

    @hostfunc
    def increase() -> None:
        nonlocal count
        count += 1

    stream = native.HostStream()
    stream.begin_capture()
    increase(stream=stream)
    increase(stream=stream)
    graph = stream.end_capture()
    stream.synchronize()
    assert count == 0
    for _ in range(10):
        graph.replay(stream)
    stream.synchronize()
    assert count == 20


def test_a_captured_payload_lives_exactly_as_long_as_the_graph() -> None:
    payload = Payload()
    alive = weakref.ref(payload)
    seen = []

    @hostfunc
    def look(given: Payload, *, times: int) -> None:
        seen.append((type(given).__name__, times))

    stream = native.HostStream()
    stream.begin_capture()
    look(payload, times=2, stream=stream)
    graph = stream.end_capture()
    del payload
    for _ in range(3):
        graph.replay(stream)
    stream.synchronize()
    gc.collect()
    assert alive() is not None and seen == [("Payload", 2)] * 3
    del graph
    gc.collect()
    assert alive() is None


def test_a_graph_dropped_while_it_replays_keeps_its_payload_until_the_end() -> None:
    go, seen = threading.Event(), []
    payload = Payload()
    alive = weakref.ref(payload)

    @hostfunc
    def look(given: Payload) -> None:
        go.wait()
        seen.append(given is alive())

    stream = native.HostStream()
    stream.begin_capture()
    look(payload, stream=stream)
    graph = stream.end_capture()
    graph.replay(stream)
    graph.replay(stream)
    del graph, payload
    assert alive() is not None
    go.set()
    stream.synchronize()
    assert seen == [True, True] and alive() is None


def test_outside_a_capture_the_payload_is_freed_after_the_call() -> None:
    payload = Payload()
    alive = weakref.ref(payload)
    stream = native.HostStream()
    hostfunc(lambda given: None)(payload, stream=stream)
    del payload
    stream.synchronize()
    gc.collect()
    assert alive() is None


def test_an_abandoned_capture_frees_its_payload() -> None:
    payload = Payload()
    alive = weakref.ref(payload)
    stream = native.HostStream()
    stream.begin_capture()
    hostfunc(lambda given: None)(payload, stream=stream)
    del payload, stream
    gc.collect()
    assert alive() is None


def test_an_exception_is_raised_at_the_next_synchronize() -> None:
    @hostfunc
    def broken() -> None:
        raise ValueError("boom")

    stream = native.HostStream()
    broken(stream=stream)
    with pytest.raises(EngineError, match=r"(?s)Traceback.*ValueError: boom"):
        stream.synchronize()
    check()


def test_it_keeps_the_functions_name_and_doc() -> None:
    def walk() -> None:
        """Walks."""

    assert (hostfunc(walk).__name__, hostfunc(walk).__doc__) == ("walk", "Walks.")


def test_a_parameter_called_stream_is_refused() -> None:
    with pytest.raises(InvalidParams, match="no parameter 'stream'"):
        hostfunc(lambda stream: None)


def test_a_call_without_a_stream_needs_cuda() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a current CUDA stream here")
    with pytest.raises(InvalidParams, match="needs stream="):
        hostfunc(lambda: None)()


def test_a_thing_that_is_no_stream_is_refused() -> None:
    with pytest.raises(InvalidParams, match="not str"):
        hostfunc(lambda: None)(stream="main")  # type: ignore[arg-type]
