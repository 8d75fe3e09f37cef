"""Streams, events and graphs of the native core as Python sees them: order, bounds, errors,
threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from specguide import native
from specguide.errors import EngineError


def function(call: Callable[..., Any], *args: Any, name: str = "f") -> native.HostFunction:
    return native.python_host_function(call, args, {}, name)


def test_two_streams_run_in_the_order_of_their_events() -> None:
    forward, grammar = native.CallerStream("forward"), native.HostStream("grammar")
    tokens_ready, rows_ready = forward.make_event("tokens"), grammar.make_event("rows")
    log: list[str] = []
    for i in range(50):
        forward.launch(function(log.append, f"forward {i}"))
        forward.record(tokens_ready)
        grammar.wait(tokens_ready)
        grammar.launch(function(log.append, f"grammar {i}"))
        grammar.record(rows_ready)
        forward.wait(rows_ready)
    grammar.synchronize()
    assert log == [f"{who} {i}" for i in range(50) for who in ("forward", "grammar")]


def test_a_host_stream_runs_on_its_own_thread_and_a_caller_stream_on_the_callers() -> None:
    seen: list[int] = []
    host = native.HostStream()
    host.launch(function(lambda: seen.append(threading.get_ident())))
    host.synchronize()
    native.CallerStream().launch(function(lambda: seen.append(threading.get_ident())))
    assert seen[0] != threading.get_ident() and seen[1] == threading.get_ident()


def test_waiting_lets_other_python_threads_run() -> None:
    grammar, forward = native.HostStream("grammar"), native.CallerStream("forward")
    ready = native.HostEvent("ready")
    go = threading.Event()
    grammar.launch(function(go.wait))
    grammar.record(ready)
    threading.Timer(0.05, go.set).start()
    forward.wait(ready)  # would hang if it held the GIL
    assert go.is_set() and ready.query()


def test_a_time_out_is_an_engine_error_that_names_the_event() -> None:
    grammar, forward = native.HostStream("grammar"), native.CallerStream("forward", timeout=0.05)
    ready = native.HostEvent("rows ready")
    go = threading.Event()
    grammar.launch(function(go.wait, name="slow walk"))
    grammar.record(ready)
    with pytest.raises(
        EngineError, match=r"'forward' waited 0\.05 s in vain for event 'rows ready'"
    ):
        forward.wait(ready)
    with pytest.raises(EngineError, match="event 'rows ready' was not reached within"):
        ready.synchronize(0.01)
    with pytest.raises(EngineError, match="running host function 'slow walk'"):
        grammar.synchronize(0.01)
    go.set()
    grammar.synchronize()


def test_an_exception_is_latched_with_its_traceback() -> None:
    def broken() -> None:
        raise KeyError("no such thing")

    stream, ran = native.HostStream(), []
    stream.launch(function(broken, name="broken"))
    stream.launch(function(ran.append, 1))
    with pytest.raises(
        EngineError, match=r"(?s)host function 'broken' failed: Traceback.*in broken.*KeyError"
    ):
        stream.synchronize()
    stream.synchronize()
    stream.check()
    assert ran == [1]


def test_a_stream_dropped_while_it_runs_python_does_not_hang() -> None:
    stream, ran = native.HostStream(), []
    stream.launch(function(time.sleep, 0.05))
    stream.launch(function(ran.append, 1))
    del stream
    assert ran == [1]


def test_events_of_another_kind_are_refused() -> None:
    with pytest.raises(ValueError, match="replay needs a stream"):
        stream = native.HostStream()
        stream.begin_capture()
        stream.end_capture().replay()
    with pytest.raises(ValueError, match="not capturing"):
        native.HostStream("idle").end_capture()


def test_a_captured_fork_and_join_replays_in_order() -> None:
    forward, grammar = native.HostStream("forward"), native.HostStream("grammar")
    fork, join = native.HostEvent("fork"), native.HostEvent("join")
    log: list[str] = []
    forward.begin_capture()
    forward.launch(function(log.append, "target"))
    forward.record(fork)
    grammar.wait(fork)
    assert grammar.is_capturing
    grammar.launch(function(log.append, "grammar"))
    grammar.record(join)
    forward.wait(join)
    forward.launch(function(log.append, "draft"))
    graph = forward.end_capture()
    assert (graph.num_nodes, graph.num_streams, log) == (3, 2, [])
    for _ in range(5):
        graph.replay(forward, grammar)
        graph.replay(forward)
    forward.synchronize()
    assert log == ["target", "grammar", "draft"] * 10


def test_cuda_streams_say_why_there_are_none() -> None:
    reason = native.cuda_unavailable_reason()
    if reason is None:
        pytest.skip("there is a CUDA driver here")
    with pytest.raises(EngineError, match="no CUDA driver"):
        native.CudaStream(0)
