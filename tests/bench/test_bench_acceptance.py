"""The acceptance benchmark: what it compares, and that a broken-off run goes on."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from specguide.bench.acceptance_report import markdown
from specguide.bench.records import Records
from specguide.bench.settings import Axes, Setting
from specguide.bench.tasks import Task, digest
from specguide.cli import app
from specguide.drafts.tree import DynamicTree
from specguide.engine.setup.target_folder import SHIPPED_MODEL
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


def with_tasks(folder: Path) -> Path:
    texts = ("My name is Anna and I am 31 years old.", "Bob is 8.")
    lines = [
        {"id": str(n), "messages": [{"role": "user", "content": text}], "schema": PERSON}
        for n, text in enumerate(texts)
    ]
    (folder / "own.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return with_tasks(tmp_path)


def records(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]


def invoke(data: Path, *args: str) -> Any:
    return CliRunner().invoke(
        app, [*ARGS, "--data", str(data), "--output", str(data / "out"), *args]
    )


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder of tasks with the files of a run, and what the run has printed."""
    folder = with_tasks(tmp_path_factory.mktemp("measured"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECGUIDE_COMMIT", "abc1234")
        done = invoke(folder)
    assert done.exit_code == 0, (done.output, done.exception)
    return folder, done.output


def test_what_is_measured(measured: tuple[Path, str]) -> None:
    out, printed = measured[0] / "out", measured[1]
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
    assert "own has 2 tasks" in printed and {f["concurrency"] for f in found} == {2}
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


def test_a_run_that_goes_on_where_it_was(
    measured: tuple[Path, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = shutil.copytree(measured[0], tmp_path / measured[0].name)
    out = data / "out"
    lines = (out / "records.jsonl").read_text().splitlines()
    kept = [json.loads(line) for line in lines[:3]]
    del kept[0]["outputs"]["1"]  # as if plain decoding had failed there
    (out / "records.jsonl").write_text("".join(f"{json.dumps(k)}\n" for k in kept) + lines[3][:40])
    monkeypatch.setenv("SPECGUIDE_COMMIT", "def5678")
    again = invoke(data)
    assert again.exit_code == 0, (again.output, again.exception)
    told = json.loads((out / "acceptance.json").read_text())
    assert told["commit"] == "def5678"
    assert [one["commit"] for one in told["result"]] == 3 * ["abc1234"] + 2 * ["def5678"]
    assert records(out)[:3] == kept
    assert "3 of 5 settings already" in again.output
    assert [line["figures"]["differ_from_plain"] for line in records(out)[3:]] == [1, 1]
    other = invoke(data, "--max-whitespace", "2")
    assert isinstance(other.exception, InvalidParams)
    assert "with {'max_whitespace': 0}, not with {'max_whitespace': 2}" in str(other.exception)
    for content, message in ((b"no record\n", "not a record"), (b"\xff\n", "cannot continue")):
        (out / "records.jsonl").write_bytes(content)
        foreign = invoke(data)
        assert isinstance(foreign.exception, InvalidParams) and message in str(foreign.exception)


def test_what_was_measured_of_other_tasks_or_heads_does_not_count(tmp_path: Path) -> None:
    setting = Setting("own", "ngram", 3, 0, True, "auto", 1)
    some, others = (digest([Task("0", ({"content": text},))]) for text in "ab")
    Records(tmp_path, {"weights": "x"}, {"own": some}).add(setting, asdict(setting), {"0": (1,)})
    again = Records(tmp_path, {"weights": "x"}, {"own": some})
    assert again.find(setting) == asdict(setting) and again.outputs(setting) == {"0": (1,)}
    assert Records(tmp_path, {"weights": "x"}, {"own": others}).find(setting) is None
    with pytest.raises(InvalidParams, match="choose another --output"):
        Records(tmp_path, {"weights": "y"}, {"own": some})


def test_a_run_that_is_broken_off_tells_what_it_has(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add(self: Records, setting: Setting, *found: Any) -> None:
        if setting.drafter != "plain":
            raise KeyboardInterrupt
        kept(self, setting, *found)

    kept = Records.add
    monkeypatch.setattr(Records, "add", add)
    done = invoke(data)
    assert done.exit_code == 130 and "1 of 5 settings are measured" in done.output
    told = json.loads((data / "out" / "acceptance.json").read_text())["result"]
    assert [figures["drafter"] for figures in told] == ["plain"] and markdown(told) in done.output


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
        ("--drafters", "eagle4", "--drafters: 'eagle4' is not one of"),
        ("--backends", "outlines", "--backends: 'outlines' is not one of"),
        ("--concurrency", "1,a", "found 'a'"),
        ("--num-draft-tokens", "40", "1 to 16"),
        ("--num-draft-tokens", "0", "whole numbers ≥ 1"),
        ("--drafters", "", "is not one of"),
        ("--head", "eagle3", "is not METHOD=FOLDER"),
        ("--head", "ngram=.", "is not METHOD=FOLDER"),
        ("--head", "eagle3=nowhere", "there is no folder nowhere"),
        ("--drafters", "ngram,peagle", "peagle needs a head or a small model"),
        ("--drafters", "draft_model_tree", "this target: --head draft_model=FOLDER"),
        ("--model", str(SHIPPED_MODEL / "target"), "eagle3 needs a head"),
    ],
)
def test_what_is_wrong_is_said_before_anything_runs(
    data: Path, option: str, value: str, message: str
) -> None:
    done = invoke(data, option, value)
    assert isinstance(done.exception, InvalidParams) and message in str(done.exception)
    assert not (data / "out").exists()


def test_usual_drafters_without_a_head_are_left_out(data: Path) -> None:
    target = ("--model", str(SHIPPED_MODEL / "target"), "--samples", "1", "--max-tokens", "4")
    mtp = ("--head", f"mtp={SHIPPED_MODEL / 'mtp'}")
    out = ("--data", str(data), "--output", str(data / "out"), "--forced", "0", *target, *mtp)
    done = CliRunner().invoke(app, ["bench", "acceptance", "--sets", "own", *out])
    assert done.exit_code == 0, (done.output, done.exception)
    assert "eagle3 needs a head or a small model for this target: --head eagle3=" in done.output
    measured = dict.fromkeys(line["figures"]["drafter"] for line in records(data / "out"))
    assert list(measured) == ["plain", "mtp", "ngram", "suffix"]


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
