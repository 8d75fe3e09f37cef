"""The acceptance benchmark: what it compares, that a broken-off run goes on, and what it tells."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from specguide.bench.acceptance_figures import validity
from specguide.bench.acceptance_plots import draw
from specguide.bench.acceptance_report import markdown, net_gain
from specguide.bench.settings import Axes, Setting
from specguide.bench.tasks import Task
from specguide.cli import app
from specguide.drafts.tree import DynamicTree
from specguide.errors import InvalidParams

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "maximum": 99, "minimum": 0},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
ARGS = [
    "bench",
    "acceptance",
    "--sets",
    "own",
    "--drafters",
    "eagle3,grammar",
    "--forced",
    "0,4",
    "--max-tokens",
    "24",
    "--concurrency",
    "2,8",
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    texts = ("My name is Anna and I am 31 years old.", "Bob is 8.")
    lines = [
        {"id": str(n), "messages": [{"role": "user", "content": text}], "schema": PERSON}
        for n, text in enumerate(texts)
    ]
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return tmp_path


def records(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]


def invoke(data: Path, *args: str) -> Any:
    return CliRunner().invoke(
        app, [*ARGS, "--data", str(data), "--output", str(data / "out"), *args]
    )


def test_a_run_that_goes_on_where_it_was(data: Path) -> None:
    out, first = data / "out", invoke(data)
    assert first.exit_code == 0, (first.output, first.exception)
    found = [line["figures"] for line in records(out)]
    assert [
        (f["drafter"], f["num_draft_tokens"], f["num_forced"], f["guided_drafts"]) for f in found
    ] == [
        ("plain", 0, 0, True),
        ("eagle3", 3, 0, True),
        ("eagle3", 3, 0, False),
        ("eagle3", 3, 4, True),
        ("grammar", 0, 4, True),
    ]
    assert "own has 2 tasks" in first.output and {f["concurrency"] for f in found} == {2}
    assert all(f["differ_from_plain"] == 0 and not f["invalid"] and not f["errors"] for f in found)
    for figures in found:
        assert (
            figures["whole"] == 2
            and figures["callback_us"]["p50"] > 0
            and figures["iteration_ms"]["p50"] > 0
        )
        assert (
            figures["latency_ms"]["p50"]
            > figures["ttft_ms"]["p50"]
            > 0
            < figures["tokens_per_s_per_user"]
        )
        assert figures["window"] == figures["num_draft_tokens"] + figures["num_forced"]
    plain, eagle, _, with_forced, grammar = found
    assert (
        0 < plain["grammar_us"]["p50"] <= plain["grammar_us"]["p99.9"]
        and plain["compile_ms"]["p50"] > 0
    )
    assert (
        plain["acceptance_length"]
        == 1
        < min(eagle["acceptance_length"], grammar["acceptance_length"])
    )
    assert with_forced["accepted"]["forced"] > 0 == eagle["forced_share"] < grammar["forced_share"]
    assert markdown(found) + "\n" == (out / "acceptance.md").read_text()
    assert json.loads((out / "acceptance.json").read_text())["result"] == found
    lines = (out / "records.jsonl").read_text().splitlines()
    kept = [json.loads(line) for line in lines[:3]]
    del kept[0]["outputs"]["1"]  # as if plain decoding had failed there
    (out / "records.jsonl").write_text("".join(f"{json.dumps(k)}\n" for k in kept) + lines[3][:40])
    again = invoke(data)
    assert again.exit_code == 0 and records(out)[:3] == kept
    assert [line["figures"]["differ_from_plain"] for line in records(out)[3:]] == [1, 1]
    other = invoke(data, "--max-whitespace", "2")
    assert isinstance(other.exception, InvalidParams) and "another --output" in str(other.exception)


def test_what_a_backend_or_a_template_refuses_is_counted(data: Path) -> None:
    hard = {
        "type": "object",
        "properties": {"at": {"type": "string", "format": "date-time"}},
        "required": ["at"],
        "additionalProperties": {"type": "integer"},
        "minProperties": 3,
    }
    with (data / "own.jsonl").open("a") as file:
        for name, messages in (
            ("hard", [{"role": "user", "content": "When?"}]),
            ("odd", [{"role": "user"}]),
        ):
            file.write("\n" + json.dumps({"id": name, "messages": messages, "schema": hard}))
    done = invoke(data, "--drafters", "ngram", "--forced", "0", "--backends", "xgrammar")
    assert done.exit_code == 0, (done.output, done.exception)
    for line in records(data / "out"):
        assert line["figures"]["errors"] == {"UnsupportedGuide": 1, "InvalidParams": 1}
        assert line["figures"]["whole"] == 2 and line["outputs"].keys() == {"0", "1"}
    assert "1 UnsupportedGuide" in (data / "out" / "acceptance.md").read_text()


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--drafters", "eagle4", "'eagle4' is none of"),
        ("--backends", "outlines", "'outlines' is none of"),
        ("--concurrency", "1,a", "found 'a'"),
        ("--num-draft-tokens", "40", "1 to 16"),
        ("--num-draft-tokens", "0", "whole numbers ≥ 1"),
        ("--drafters", "", "is none of"),
        ("--head", "eagle3", "is not METHOD=FOLDER"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(
    data: Path, option: str, value: str, message: str
) -> None:
    done = invoke(data, option, value)
    assert isinstance(done.exception, InvalidParams) and message in str(done.exception)
    assert not (data / "out").exists()


def test_settings_that_make_no_sense_are_left_out() -> None:
    axes = Axes(
        ["eagle3", "grammar", "ngram", "eagle3_tree"],
        [3, 5],
        [0, 8],
        [True, False],
        ["auto"],
        [1, 4],
    )
    found = list(axes.settings({"a": 2}))
    assert [(s.drafter, s.num_draft_tokens, s.num_forced, s.guided_drafts) for s in found] == [
        ("plain", 0, 0, True),
        ("eagle3", 3, 0, True),
        ("eagle3", 3, 0, False),
        ("eagle3", 3, 8, True),
        ("eagle3", 5, 0, True),
        ("eagle3", 5, 0, False),
        ("eagle3", 5, 8, True),
        ("grammar", 0, 8, True),
        ("ngram", 3, 0, True),
        ("ngram", 3, 8, True),
        ("ngram", 5, 0, True),
        ("ngram", 5, 8, True),
        ("eagle3_tree", 6, 0, True),
        ("eagle3_tree", 6, 0, False),
    ]
    assert {s.concurrency for s in found} == {1} and all(s.plain == found[0] for s in found)
    assert [s.concurrency for s in axes.settings({"a": 4}) if s.drafter == "plain"] == [1, 4]


def test_there_are_no_more_requests_at_once_than_tasks() -> None:
    axes = Axes(["ngram"], [3], [0, 0], [True], ["auto", "auto"], [8, 8])
    found = [(s.drafter, s.concurrency) for s in axes.settings({"a": 4})]
    assert found == [("plain", 4), ("ngram", 4)]


def test_a_setting_becomes_a_spec_config(tmp_path: Path) -> None:
    setting = Setting("a", "eagle3", 3, 8, True, "auto", 1)
    assert setting.plain.spec({}) is None
    spec = setting.spec({"eagle3": tmp_path})
    assert spec is not None and spec.layout.num_drafts == 11 and spec.model == tmp_path
    tree = Setting("a", "eagle3_tree", 6, 0, True, "auto", 1).spec({})
    assert tree is not None and tree.tree == DynamicTree() and tree.layout.num_drafts == 6
    assert setting.spec({"mtp": tmp_path}).model is None


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
