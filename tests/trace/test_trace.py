"""Timelines: the file's format, and that the tracks of a run on a CPU tell what happened, in
order."""

from __future__ import annotations

import json
import math
import sys
import time
from contextlib import nullcontext
from itertools import pairwise

import pytest
import torch
from random_requests import cases
from timelines import by_iteration, check_iterations, track
from tiny_engine import K, make

from specguide.errors import InvalidParams
from specguide.trace import (
    TRACKS,
    HostRecorder,
    Recorder,
    Span,
    read_chrome_trace,
    write_chrome_trace,
)
from specguide.trace.cuda_recorder import CudaRecorder


@pytest.fixture(scope="module")
def spans(folders, tmp_path_factory):
    """The timeline of a few requests, two thirds of them guided, and how many iterations they
    took."""
    path = tmp_path_factory.mktemp("trace") / "out.json"
    llm = make(folders, max_batch_size=2, lag=1, trace=True)
    llm.generate(*cases(5, 6))
    llm.write_trace(path)
    llm.close()
    return read_chrome_trace(path)


def test_the_file_names_four_tracks_and_its_events_are_complete(tmp_path):
    recorded = [
        Span("host", "schedule", 1_500, 2_750),
        Span("forward stream", "verify", 2_001, 2_001, {"iteration": 1}),
    ]
    write_chrome_trace(tmp_path / "out.json", recorded)
    events = json.loads((tmp_path / "out.json").read_text())["traceEvents"]
    named = {
        event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"
    }
    assert list(named.values()) == list(TRACKS) and {event["pid"] for event in events} == {1}
    assert {event["ph"] for event in events} == {"M", "X"}
    schedule, verify = (event for event in events if event["ph"] == "X")
    assert (named[schedule["tid"]], schedule["ts"], schedule["dur"]) == ("host", 0, 1.25)
    assert (named[verify["tid"]], verify["ts"], verify["args"]) == (
        "forward stream",
        0.501,
        {"iteration": 1},
    )
    assert read_chrome_trace(tmp_path / "out.json")[1] == Span(
        "forward stream", "verify", 501, 501, {"iteration": 1}
    )
    with pytest.raises(InvalidParams, match="cannot write"):
        write_chrome_trace(tmp_path / "no" / "out.json", recorded)


def test_spans_of_a_track_follow_each_other(spans):
    assert {span.track for span in spans} == set(TRACKS)
    for name in TRACKS:
        for span, following in pairwise(track(spans, name)):
            assert span.begin_ns <= span.end_ns <= following.begin_ns, (span, following)


def test_every_iteration_tells_its_whole_course(spans):
    check_iterations(spans, K)
    assert {span.args["phase"] for span in track(spans, "forward stream")} == {"prefill", "decode"}


def test_a_row_is_waited_for_until_its_callback_is_over(spans):
    ends = {(span.args["iteration"], span.name): span.end_ns for span in track(spans, "callbacks")}
    for iteration, some in by_iteration(spans, "forward stream").items():
        waits = [span for span in some if span.name == "wait rows"]
        assert len(waits) == K + 1
        for index, span in enumerate(waits):
            assert span.end_ns >= ends[iteration, f"callback {index}"]


def test_the_host_schedules_submits_and_launches_then_waits_and_commits(spans):
    names = [span.name for span in track(spans, "host")]
    num_iterations = len(by_iteration(spans, "forward stream"))
    assert names.count("submit") == names.count("launch") == num_iterations
    assert names.count("wait") == names.count("commit")
    # Most often nobody is left to want the last one.
    assert num_iterations - 1 <= names.count("commit") <= num_iterations
    for name, following in pairwise(names):
        assert (
            following
            in {
                "schedule": ("submit", "wait"),
                "submit": ("launch",),
                "launch": ("wait", "schedule"),
                "wait": ("commit",),
                "commit": ("wait", "schedule"),
            }[name]
        )
    launches = [span for span in track(spans, "host") if span.name == "launch"]
    for launch, some in zip(launches, by_iteration(spans, "forward stream").values(), strict=True):
        assert launch.begin_ns <= some[0].begin_ns and some[-1].end_ns <= launch.end_ns


def test_nothing_is_recorded_unasked(folders, tmp_path):
    llm = make(folders)
    llm.generate(*cases(6, 2))
    assert type(llm._engine._recorder) is Recorder and llm._engine._recorder.spans() == []
    assert llm._engine._executor.grammar.take_callback_times() == []
    with pytest.raises(InvalidParams, match="trace=True"):
        llm.write_trace(tmp_path / "out.json")
    llm.close()


def test_a_timeline_can_be_written_twice_and_goes_on(folders, tmp_path):
    llm = make(folders, trace=True)
    sizes = []
    for _ in range(2):
        llm.generate(*cases(7, 1))
        llm.write_trace(tmp_path / "out.json")
        sizes.append(len(track(read_chrome_trace(tmp_path / "out.json"), "callbacks")))
    assert sizes[1] == 2 * sizes[0] > 0
    llm.close()


def test_the_times_of_callbacks_are_taken_once_iterations_have_ended(folders, monkeypatch):
    """On a GPU one is still under way when `generate` returns."""
    llm = make(folders, max_batch_size=2, trace=True)
    grammar = llm._engine._grammar
    done, take = [], grammar.take_callback_times
    monkeypatch.setattr(grammar.forward, "synchronize", lambda: done.append("waited"))
    monkeypatch.setattr(grammar, "take_callback_times", lambda: [done.append("taken"), *take()][1:])
    llm._engine.spans()
    assert done == ["waited", "taken"]
    llm.close()


def test_only_the_last_spans_are_kept(monkeypatch):
    monkeypatch.setattr(HostRecorder, "max_spans", 3)
    recorder = HostRecorder()
    recorder.begin_iteration("decode")
    for number in range(5):
        recorder.forward(str(number))
    assert [span.name for span in recorder.spans()] == ["2", "3", "4"]


def test_marks_are_on_the_host_clock():
    recorder, begin_ns = HostRecorder(), time.perf_counter_ns()
    recorder.begin_iteration("decode")
    recorder.forward("a")
    with recorder.host("b"):
        recorder.forward("c")
    a, c, b = recorder.spans()
    assert (
        begin_ns
        <= a.begin_ns
        <= a.end_ns
        <= b.begin_ns
        <= c.end_ns
        <= b.end_ns
        <= time.perf_counter_ns()
    )


class FakeEvent:
    """Stands for a CUDA event; the GPU's clock is the host's, in milliseconds and ahead of it."""

    def __init__(self, **_: bool) -> None:
        self.ms = math.nan

    def record(self) -> None:
        self.ms = time.perf_counter_ns() / 1e6 + 1e5

    def synchronize(self) -> None:
        assert not math.isnan(self.ms)

    def elapsed_time(self, end: FakeEvent) -> float:
        return end.ms - self.ms


def test_marks_of_a_graph_are_those_of_its_last_replay(monkeypatch):
    monkeypatch.setattr(torch.cuda, "Event", FakeEvent)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)
    monkeypatch.setattr(torch.cuda, "device", nullcontext)
    recorder, graphs, turns = CudaRecorder(torch.device("cuda"), num_under_way=2), {}, []
    for _ in range(5):
        recorder.begin_iteration("decode")
        turns.append(recorder.iteration_place)
        if recorder.iteration_place not in graphs:
            with recorder.capture() as graphs[recorder.iteration_place]:
                recorder.forward("target forward")
        for _, event in graphs[recorder.iteration_place]:
            event.record()
        recorder.replayed(graphs[recorder.iteration_place])
        recorder.forward("results")
        assert len(recorder._under_way) <= 2
    recorder.add_callbacks([(1, 0, 5, 7)])
    spans = recorder.spans()
    assert turns == [1, 0, 1, 0, 1]
    for some in by_iteration(spans, "forward stream").values():
        assert [span.name for span in some] == ["target forward", "results"]
        assert some[0].end_ns == some[1].begin_ns
    assert len(track(spans, "grammar stream")) == len(track(spans, "callbacks")) == 1
    forward = track(spans, "forward stream")
    assert all(span.end_ns <= following.begin_ns + 1 for span, following in pairwise(forward))
    assert abs(forward[-1].end_ns - time.perf_counter_ns()) < 1e9


def test_an_iteration_as_a_picture(spans, tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    from benchmarks import timeline

    write_chrome_trace(tmp_path / "out.json", spans)
    monkeypatch.setattr(
        sys, "argv", ["timeline", str(tmp_path / "out.json"), "--png", str(tmp_path / "it.png")]
    )
    timeline.main()
    assert (tmp_path / "it.png").read_bytes().startswith(b"\x89PNG")
    assert "target forward" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="no iteration 9999"):
        timeline.plot_iteration(spans, 9999, tmp_path / "it.png")
