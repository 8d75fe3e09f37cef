"""The acceptance benchmark: what it counts, where tasks come from, and that a broken-off run goes on."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from typer.testing import CliRunner

from specguide.bench.acceptance import acceptance
from specguide.bench.acceptance_report import draw, markdown
from specguide.bench.settings import Setting, settings
from specguide.bench.tasks import load_tasks
from specguide.cli import app
from specguide.errors import InvalidParams
from specguide.request import RequestMetrics, RequestOutput

PERSON = {"type": "object", "properties": {
    "name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "maximum": 99, "minimum": 0}},
    "required": ["name", "age"], "additionalProperties": False}
ARGS = ["bench", "acceptance", "--sets", "own", "--drafters", "eagle3,grammar", "--forced", "0,4", "--max-tokens", "24"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    texts = ("My name is Anna and I am 31 years old.", "Bob is 8.")
    lines = [{"id": str(n), "messages": [{"role": "user", "content": text}], "schema": PERSON}
             for n, text in enumerate(texts)]
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return tmp_path


def records(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]


def test_a_run_that_goes_on_where_it_was(data: Path) -> None:
    out = data / "out"
    first = CliRunner().invoke(app, [*ARGS, "--data", str(data), "--output", str(out)])
    assert first.exit_code == 0, (first.output, first.exception)
    found = [line["figures"] for line in records(out)]
    assert [(f["drafter"], f["num_forced"], f["guided_drafts"]) for f in found] == [
        ("plain", 0, True), ("eagle3", 0, True), ("eagle3", 4, True), ("eagle3", 0, False), ("grammar", 4, True)]
    assert all(f["differ_from_plain"] == 0 and not f["invalid"] and not f["errors"] for f in found)
    assert all(f["whole"] == 2 and f["callback_us"]["p50"] > 0 for f in found)
    plain, eagle, with_forced, _, grammar = found
    assert plain["acceptance_length"] == 1 < min(eagle["acceptance_length"], grammar["acceptance_length"])
    assert with_forced["accepted"]["forced"] > 0 == eagle["forced_share"] < grammar["forced_share"]
    assert markdown(found) + "\n" == (out / "acceptance.md").read_text()
    (out / "records.jsonl").write_text("\n".join(map(json.dumps, records(out)[:3])) + "\n")
    again = CliRunner().invoke(app, [*ARGS, "--data", str(data), "--output", str(out)])
    assert again.exit_code == 0 and len(records(out)) == 5
    other = CliRunner().invoke(app, [*ARGS, "--data", str(data), "--output", str(out), "--max-whitespace", "2"])
    assert isinstance(other.exception, InvalidParams) and "another --output" in str(other.exception)


def test_settings_that_make_no_sense_are_left_out() -> None:
    found = list(settings(["a"], ["eagle3", "grammar", "ngram"], [0, 8], [True, False], ["auto"], [1]))
    assert [(s.drafter, s.num_forced, s.guided_drafts) for s in found] == [
        ("plain", 0, True), ("eagle3", 0, True), ("eagle3", 8, True), ("eagle3", 0, False), ("grammar", 8, True),
        ("ngram", 0, True), ("ngram", 8, True)]
    assert found[0].spec(3) is None and found[2].spec(3).window.num_drafts == 11


def test_what_is_counted() -> None:
    metrics = RequestMetrics(accepted_histogram=[1, 0, 2, 1], drafts_accepted={"forced": 3})
    failed = RequestOutput("", (), "error", InvalidParams("no"), RequestMetrics(accepted_histogram=[9]))
    found = acceptance([RequestOutput("", tuple(range(12)), "stop", None, metrics), failed])
    assert found["iterations"] == 4 and found["acceptance_length"] == (1 + 2 * 3 + 4) / 4
    assert found["accepted_to_depth"] == [0.75, 0.75, 0.25] and found["forced_share"] == 0.25


def test_where_tasks_come_from(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidParams, match="no data set others"):
        load_tasks("others", data, 3)
    with pytest.raises(InvalidParams, match="0 are asked for"):
        load_tasks("own", data, 0)
    (data / "twice.jsonl").write_text('{"messages": []}\n' * 2)
    with pytest.raises(InvalidParams, match="the same id"):
        load_tasks("twice", data, 3)
    (data / "bfcl.jsonl").write_text(json.dumps({"id": "x"}))
    with pytest.raises(InvalidParams, match="is not what bfcl has"):
        load_tasks("bfcl", data, 3)
    hub = ModuleType("datasets")
    hub.load_dataset = lambda name, split: [
        {"json_schema": json.dumps(PERSON), "unique_id": f"{name} {split} {n}"} for n in range(9)]
    monkeypatch.setitem(sys.modules, "datasets", hub)
    found = load_tasks("jsonschemabench", data, 3)
    assert [task.name[-1] for task in found] == ["0", "3", "6"] and found[0].schema == PERSON
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InvalidParams, match="pip install datasets"):
        load_tasks("jsonschemabench", None, 3)


def test_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    figures = {"acceptance_length": 2.0, "tokens_per_s": 90.0}
    some = [{**vars(Setting("own", drafter, 0, True, "auto", n)), **figures}
            for drafter in ("plain", "eagle3") for n in (1, 8)]
    assert [path.name for path in draw(some, tmp_path)] == ["acceptance_own.svg", "pareto_own.svg"]
