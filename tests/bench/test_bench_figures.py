"""What the acceptance benchmark counts, against the same said slowly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from specguide.bench.acceptance_figures import acceptance, latencies, percentiles, times
from specguide.bench.answer import Answer
from specguide.bench.busy import busy_tokens_per_s, busy_window, common
from specguide.errors import InvalidParams
from specguide.request import RequestOutput
from specguide.request_records import RequestMetrics
from specguide.trace.spans import CALLBACKS, FORWARD, HOST, Span


def output(accepted: list[int], forced: int = 0) -> RequestOutput:
    """The output of a request whose iterations accepted so many drafts; its first token is the
    prefill's."""
    histogram = np.bincount(accepted, minlength=1).tolist() if accepted else []
    metrics = RequestMetrics(
        num_iterations=len(accepted),
        accepted_histogram=histogram,
        drafts_accepted={"forced": forced} if forced else {},
    )
    return RequestOutput("", tuple(range(1 + sum(accepted) + len(accepted))), "stop", None, metrics)


@given(st.lists(st.lists(st.integers(0, 12), max_size=20), max_size=5))
def test_acceptance_against_iterations_one_by_one(requests: list[list[int]]) -> None:
    found, flat = (
        acceptance([output(accepted) for accepted in requests]),
        [a for one in requests for a in one],
    )
    assert found["iterations"] == len(flat) == sum(found["histogram"])
    for place, count in enumerate(found["histogram"]):
        assert count == flat.count(place)
    if not flat:
        assert (
            found["acceptance_length"] == 0
            and found["accepted_to_depth"] == found["accepted_if_reached"] == []
        )
        return
    assert found["acceptance_length"] == pytest.approx(1 + sum(flat) / len(flat), abs=1e-4)
    assert found["output_tokens"] == len(requests) + sum(flat) + len(flat)
    for depth, (share, if_reached) in enumerate(
        zip(found["accepted_to_depth"], found["accepted_if_reached"], strict=True)
    ):
        more, reached = sum(a > depth for a in flat), sum(a >= depth for a in flat)
        assert share == pytest.approx(more / len(flat), abs=1e-4)
        assert if_reached == pytest.approx(more / reached, abs=1e-4)
    assert sum(found["accepted_to_depth"]) == pytest.approx(
        found["acceptance_length"] - 1, abs=2e-3
    )
    assert len(found["accepted_to_depth"]) == max(flat)


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 6), min_size=1, max_size=9), st.floats(0, 1)), max_size=4
    )
)
def test_the_share_of_forced_tokens(requests: list[tuple[list[int], float]]) -> None:
    forced = [round(share * sum(accepted)) for accepted, share in requests]
    found = acceptance(
        [output(accepted, num) for (accepted, _), num in zip(requests, forced, strict=True)]
    )
    assert 0 <= found["forced_share"] <= 1
    assert found["forced_share"] * found["output_tokens"] == pytest.approx(sum(forced), abs=0.01)


def test_a_request_that_failed_does_not_count() -> None:
    failed = RequestOutput(
        "", (), "error", InvalidParams("no"), RequestMetrics(accepted_histogram=[9])
    )
    assert acceptance([output([0, 2]), failed]) == acceptance([output([0, 2])])
    assert latencies([failed]) == {"ttft_ms": {}, "latency_ms": {}, "tokens_per_s_per_user": None}


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=60))
def test_percentiles_are_of_the_values(values: list[float]) -> None:
    found = percentiles(values, (50, 99, 99.9))
    assert list(found) == ["p50", "p99", "p99.9"]
    assert (
        min(values) - 1e-3 <= found["p50"] <= found["p99"] <= found["p99.9"] <= max(values) + 1e-3
    )
    assert sum(value <= found["p50"] + 1e-3 for value in values) >= len(values) / 2
    assert percentiles([], (50,)) == {}


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["prefill", "decode"]),
            st.lists(st.integers(1, 9_000_000), min_size=1, max_size=5),
        ),
        max_size=12,
    )
)
def test_iterations_are_timed_from_their_first_span_to_their_last(
    iterations: list[tuple[str, list[int]]],
) -> None:
    spans, now, expected = (
        [Span(FORWARD, "earlier", 0, 10, {"iteration": 1, "phase": "decode"})],
        1000,
        [],
    )
    for number, (phase, lengths) in enumerate(iterations, 2):
        for length in lengths:
            spans += [
                Span(FORWARD, "x", now, now + length, {"iteration": number, "phase": phase}),
                Span(CALLBACKS, "callback 0", now, now + 2000, {"iteration": number}),
                Span(HOST, "host", now, now + 10**9),
            ]
            now += length
        expected += [sum(lengths) / 1e6] * (phase == "decode")
        now += 10**6
    found = times(spans, since_ns=1000)
    assert found["iteration_ms"] == percentiles(expected, (50, 99))
    assert set(found["callback_us"].values()) <= {2.0}


def test_what_a_user_gets() -> None:
    def ended(total_s: float) -> RequestOutput:
        metrics = RequestMetrics(
            output_tokens=11, queue_s=1.0, time_to_first_token_s=1.5, total_s=total_s
        )
        return RequestOutput("", (0,) * 11, "stop", None, metrics)

    found = latencies([ended(2.5), ended(3.5), ended(6.5)])
    assert found["ttft_ms"] == {"p50": 500, "p99": 500} and found["latency_ms"]["p50"] == 2500
    assert found["tokens_per_s_per_user"] == 5


def test_the_rate_while_all_clients_are_busy():
    def answer(due_s: float, end_s: float, arrivals_s: list[float]) -> Answer:
        usage = {"completion_tokens": 2 * len(arrivals_s)}
        return Answer(None, due_s, end_s, arrivals_s, usage=usage)  # type: ignore[arg-type]

    first, second = answer(0.0, 4.0, [1.0, 2.0, 3.0, 4.0]), answer(0.5, 2.0, [1.5, 2.0])
    third = answer(2.0, 6.0, [3.0, 5.0])
    answers = [first, second, third]
    assert busy_window(answers, 2) == (0.5, 4.0)
    assert busy_window(answers, 4) is None and busy_tokens_per_s(answers, None) is None
    assert common([(0.5, 4.0), (1.0, 5.0)]) == (1.0, 4.0)
    assert common([(0.5, 4.0), None]) is None and common([(0.0, 1.0), (2.0, 3.0)]) is None
    assert busy_tokens_per_s(answers, busy_window(answers, 2)) == round(2 * 7 / 3.5, 2)
