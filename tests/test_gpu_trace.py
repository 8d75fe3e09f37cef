"""Timelines of captured iterations on a GPU: whole, in order, on the host's clock, and no slower than the host saw."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from test_engine import K, cases, make
from timelines import by_iteration, check_iterations, track
from tiny import save_head, save_target

from specguide.trace import TRACKS, read_chrome_trace

pytestmark = pytest.mark.gpu

CLOCK_ERROR_NS = 100_000  # of GPU time on the host's clock over a short run


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tiny")
    return save_target(folder / "target"), save_head(folder / "head")


@pytest.fixture(scope="module", params=[0, 1, 2], ids=lambda lag: f"lag{lag}")
def traced(request, folders, tmp_path_factory):
    """A timeline whose clock begins with its first span, how long the run took, and what it gave."""
    path = tmp_path_factory.mktemp("trace") / "out.json"
    llm = make(folders, max_batch_size=2, lag=request.param, trace=True, device="cuda", dtype="float32")
    start_ns = time.perf_counter_ns()
    outputs = llm.generate(*cases(5, 6))
    duration_ns = time.perf_counter_ns() - start_ns
    llm.write_trace(path)
    assert any(llm._engine._runner.step._graphs._captured.values())
    llm.close()
    return read_chrome_trace(path), duration_ns, outputs


def test_every_track_is_there_and_in_order(traced):
    spans, _, _ = traced
    assert {span.track for span in spans} == set(TRACKS)
    for name in TRACKS:
        for span, following in pairwise(track(spans, name)):
            assert span.begin_ns <= span.end_ns <= following.begin_ns + 1, (span, following)


def test_every_iteration_tells_its_whole_course(traced):
    spans, _, _ = traced
    check_iterations(spans, K)
    course = [name for index in range(K + 1) for name in ("wait tokens", f"callback {index}", "copy rows")]
    for some in by_iteration(spans, "grammar stream").values():
        assert [span.name for span in some] == course


def test_iterations_last_as_long_as_the_host_saw(traced):
    """The forward stream's spans are without gaps within an iteration; one begins after the one before has ended."""
    spans, duration_ns, _ = traced
    durations = [sum(span.end_ns - span.begin_ns for span in some)
                 for some in by_iteration(spans, "forward stream").values()]
    assert all(duration > 20_000 for duration in durations)
    assert 0.2 * duration_ns < sum(durations) < duration_ns + CLOCK_ERROR_NS


def test_gpu_and_host_agree_on_the_time(traced):
    """A callback runs inside its span of the grammar stream, and an iteration begins after its launch began."""
    spans, _, _ = traced
    ran = {(span.args["iteration"], span.name): span for span in track(spans, "callbacks")}
    for iteration, some in by_iteration(spans, "grammar stream").items():
        for span in some:
            if span.name.startswith("callback"):
                callback = ran[iteration, span.name]
                assert span.begin_ns - CLOCK_ERROR_NS <= callback.begin_ns
                assert callback.end_ns <= span.end_ns + CLOCK_ERROR_NS
    launches = [span for span in track(spans, "host") if span.name == "launch"]
    for launch, some in zip(launches, by_iteration(spans, "forward stream").values(), strict=True):
        assert launch.begin_ns - CLOCK_ERROR_NS <= some[0].begin_ns


def test_tracing_changes_no_token(traced, folders):
    _, _, outputs = traced
    llm = make(folders, max_batch_size=2, device="cuda", dtype="float32")
    assert [out.token_ids for out in llm.generate(*cases(5, 6))] == [out.token_ids for out in outputs]
    llm.close()
