"""The figures of the iteration benchmark: of rounds of requests, and of late rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from benchmarks.iterations.figures import add_ratios, grammar_work
from benchmarks.reports.iterations import iteration_lines
from specguide.guided.grammar_stream.stream import GrammarCounters


def test_ratios_are_of_the_last_round_and_of_the_first(capsys) -> None:
    rounds = [{"median_ms": 5.5}, {"median_ms": 5.1}]
    rows = [
        {"mode": "grammarless", "median_ms": 5.0},
        {"mode": "guided", "median_ms": 5.1, "rounds": rounds},
        {"mode": "fp8 guided", "median_ms": 4.0},
    ]
    add_ratios(rows)
    assert rows[1]["of_grammarless"] == 1.02 and rows[1]["first_of_grammarless"] == 1.1
    assert "of_grammarless" not in rows[0] and "of_grammarless" not in rows[2]
    assert "1.0200, in round 1 1.1000" in capsys.readouterr().out


def test_the_report_has_the_first_round_beside_the_last() -> None:
    first = {"late_share": 0.25, "workers_us": 9000.0}
    row = {"mode": "guided", "batch_size": 16, "median_ms": 5.1, "of_grammarless": 1.02}
    row |= {"first_of_grammarless": 1.1, "late_share": 0.01, "workers_us": 2000.0}
    record = SimpleNamespace(rows=[row | {"rounds": [first, row]}], content={"config": {}})
    lines = {line.what: line.measured for line in iteration_lines(cast(Any, record))}
    assert lines["late rows for drafts: last round (first)"] == "1.0% (25.0%)"
    assert lines["workers' time an iteration, ms: last round (first)"] == "2.0 (9.0)"


def test_the_share_of_late_rows_is_of_those_that_drafts_are_chosen_by() -> None:
    before = GrammarCounters(iterations=10, late_draft_rows=1, busy_ns=0)
    after = GrammarCounters(iterations=30, late_draft_rows=4, busy_ns=2_000_000)
    work = grammar_work(before, after, num_timed=10, num_draft_rows=3)
    assert work["late_draft_rows"] == 3 and work["late_share"] == 0.05
    assert work["workers_us"] == 200.0
