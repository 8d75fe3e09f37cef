"""Timelines of captured iterations on a GPU: whole, in order, and on the host's clock."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

import pytest
from random_requests import cases
from timelines import by_iteration, check_iterations, track
from tiny_engine import K, make

from specguide.trace import TRACKS, read_chrome_trace

pytestmark = pytest.mark.gpu

CLOCK_ERROR_NS = 100_000  # of GPU time on the host's clock over a short run


@pytest.fixture(scope="module", params=[0, 1, 2], ids=lambda lag: f"lag{lag}")
def traced(request, folders, tmp_path_factory):
    """A timeline of captured iterations, the lag, and what was generated."""
    path = tmp_path_factory.mktemp("trace") / "out.json"
    llm = make(
        folders, max_batch_size=2, lag=request.param, trace=True, device="cuda", dtype="float32"
    )
    outputs = llm.generate(*cases(5, 6))
    llm.write_trace(path)
    assert any(llm._engine._executor.step._sized.runner._captured.values())
    llm.close()
    return read_chrome_trace(path), request.param, outputs


def test_every_track_is_there_and_in_order(traced):
    spans, _, _ = traced
    assert {span.track for span in spans} == set(TRACKS)
    for name in TRACKS:
        for span, following in pairwise(track(spans, name)):
            assert span.begin_ns <= span.end_ns <= following.begin_ns + 1, (span, following)


def test_every_iteration_tells_its_whole_course(traced):
    spans, _, _ = traced
    check_iterations(spans, K)


def test_an_iteration_lasts_as_long_as_the_host_saw(traced):
    spans, lag, _ = traced
    launches, waits = (
        [span for span in track(spans, "host") if span.name == name] for name in ("launch", "wait")
    )
    shares = []
    for launch, wait, some in zip(
        launches, waits, by_iteration(spans, "forward stream").values(), strict=False
    ):
        assert launch.begin_ns - CLOCK_ERROR_NS <= some[0].begin_ns
        assert some[-1].end_ns <= wait.end_ns + CLOCK_ERROR_NS
        shares.append(
            sum(span.end_ns - span.begin_ns for span in some) / (wait.end_ns - launch.begin_ns)
        )
    assert lag > 0 or 0.6 < median(shares) < 1.05


def test_gpu_and_host_agree_on_the_time(traced):
    """The first callback runs before the target's rows are there, the last one's are in the end."""
    spans, _, _ = traced
    ran = by_iteration(spans, "callbacks")
    for iteration, some in by_iteration(spans, "forward stream").items():
        first, *_, last = ran[iteration]
        waited = next(span for span in some if span.name == "wait rows")
        assert some[0].begin_ns - CLOCK_ERROR_NS <= first.begin_ns
        assert first.end_ns <= waited.end_ns + CLOCK_ERROR_NS
        assert last.end_ns <= some[-1].end_ns + CLOCK_ERROR_NS


def test_tracing_changes_no_token(traced, folders):
    _, _, outputs = traced
    llm = make(folders, max_batch_size=2, device="cuda", dtype="float32")
    assert [out.token_ids for out in llm.generate(*cases(5, 6))] == [
        out.token_ids for out in outputs
    ]
    llm.close()
