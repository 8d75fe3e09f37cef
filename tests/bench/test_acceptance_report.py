"""What the acceptance benchmark tells: its tables and pictures."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from specguide.bench.acceptance_figures import validity
from specguide.bench.acceptance_plots import draw
from specguide.bench.acceptance_report import markdown, net_gain
from specguide.bench.settings import Setting
from specguide.bench.tasks import Task


def told(
    drafter: str, forced: int, guided: bool, concurrency: int, **figures: Any
) -> dict[str, Any]:
    setting = Setting(
        "own/set", drafter, 0 if drafter == "plain" else 3, forced, guided, "auto", concurrency
    )
    return {
        **asdict(setting),
        "acceptance_length": 1.0,
        "iteration_ms": {"p50": 5.0, "p99": 6.0},
        "requests": 2,
        "guided": 2,
        "tokens_per_s": 100.0,
        "tokens_per_s_per_user": 90.0,
        "ttft_ms": {},
        "latency_ms": {},
        "callback_us": {},
        "compile_ms": {},
        "grammar_us": {"p50": 1.0, "p99": 2.0, "p99.9": 3.0},
        "errors": {},
        "whole": 2,
        "invalid": [],
        "cut": 0,
        "histogram": [1],
        "accepted_to_depth": [],
        "accepted_if_reached": [],
        "forced_share": 0.0,
        "differ_from_plain": 0,
        **figures,
    }


SOME = [told("plain", 0, True, n, tokens_per_s=100.0 * n) for n in (1, 8)] + [
    told(
        "eagle3",
        forced,
        guided,
        n,
        acceptance_length=2.0 + forced,
        iteration_ms={"p50": 8.0},
        tokens_per_s=150.0 * n,
    )
    for n in (1, 8)
    for forced, guided in ((0, True), (0, False), (4, True))
]


def test_what_jsonschema_cannot_judge_is_counted_apart() -> None:
    schema = {"type": "string", "pattern": "^\\p{L}+$"}
    tasks = [Task(name, (), schema) for name in ("letters", "no JSON")]
    outputs: Any = [
        SimpleNamespace(text=text, finish_reason="stop", error=None) for text in ('"ab"', "ab")
    ]
    found = validity(tasks, outputs)
    assert found["unjudged"] == ["letters"] and found["invalid"] == ["no JSON"]
    assert "1, 1 unjudged" in markdown([told("plain", 0, True, 1) | found])


def test_the_net_gain_is_stated() -> None:
    plain, eagle = SOME[0], SOME[2]
    assert (
        net_gain(eagle, plain) == 2 * 5 / 8
        and net_gain(plain, plain) == 1
        and net_gain(eagle, None) is None
    )
    lines = markdown(SOME).splitlines()
    line = next(line for line in lines if "| 8 | eagle3 | guided | 3 | 4 |" in line)
    cells = line.strip("| ").split(" | ")
    assert cells[7:] == ["6.00", "3.00", "3.00", "0 %", "8.00", "3.75", "1,200", "1.50", "0"]


def test_of_runs_without_drafts_nothing_is_told_of_drafts() -> None:
    lines = markdown([told("plain", 0, True, 1), told("unguided", 0, True, 1)]).splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| own/set")]
    assert [row[3:5] for row in rows[:4]] == [["plain", "–"], ["unguided", "–"]] * 2
    assert rows[0][-1] == "0" and rows[1][-1] == "–"  # outputs that differ from plain decoding's
    one = told("ngram", 0, True, 1)
    assert "| ngram | guided | 3 | 0 | 1 | – | – |" in markdown([one])


def test_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    names = [path.name for path in draw(SOME, tmp_path)]
    assert names == [
        "acceptance_own-set.svg",
        "acceptance_own-set.png",
        "pareto_own-set.svg",
        "pareto_own-set.png",
    ]
    assert all((tmp_path / name).stat().st_size > 1000 for name in names)
    without = [told(drafter, 0, True, 1) for drafter in ("plain", "unguided")]
    assert [path.name for path in draw(without, tmp_path)] == []
