"""Data sets of the acceptance benchmark: the built-in ones, a folder's, the hub's, and the forms
that records have."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest

from specguide.bench.data_sets import BUILT_IN, built_in, load_tasks
from specguide.bench.tasks import task_of
from specguide.errors import InvalidParams

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
SAID = [{"role": "user", "content": "Hello"}]


def test_built_in_sets_need_nothing() -> None:
    assert built_in() == ["chat", "extraction", "free_text", "tools"]
    assert sum(path.stat().st_size for path in BUILT_IN.iterdir()) < 100_000
    for name in built_in():
        tasks = load_tasks(name, None, 99)
        assert len(tasks) == 32
        for task in tasks:
            assert (task.schema is None) == (name in ("chat", "free_text")) and bool(
                task.tools
            ) == (name == "tools")
            if task.schema is not None:
                jsonschema.Draft202012Validator.check_schema(task.schema)


def test_built_in_sets_are_what_the_command_makes() -> None:
    export = pytest.importorskip("training.data.export_tasks")
    for name in export.GROUPS:
        made = [json.dumps(one, ensure_ascii=False) for one in export.records(name, 4242, 32)]
        assert (BUILT_IN / f"{name}.jsonl").read_text() == "\n".join(made) + "\n"


@pytest.mark.parametrize(
    ("record", "schema"),
    [
        ({"messages": SAID, "schema": SCHEMA}, SCHEMA),
        ({"prompt": SAID, "schema": json.dumps(SCHEMA)}, SCHEMA),
        ({"messages": SAID}, None),
        ({"json_schema": json.dumps(SCHEMA)}, SCHEMA),
        ({"schema": SCHEMA, "tests": [{"data": {"a": 1}, "valid": True}]}, SCHEMA),
    ],
)
def test_the_form_follows_from_the_columns(record: dict[str, Any], schema: Any) -> None:
    task = task_of(record, 7)
    assert task is not None and task.name == "7" and task.schema == schema
    assert '{"a": 1}' in task.messages[-1]["content"] or "tests" not in record


def test_tools_as_published_and_as_openai_has_them() -> None:
    published = {
        "id": "x",
        "question": [SAID],
        "function": [
            {
                "name": "f",
                "description": "d",
                "parameters": {
                    "type": "dict",
                    "properties": {
                        "type": {"type": "float"},
                        "b": {"type": "tuple", "items": {"type": "any"}},
                    },
                },
            }
        ],
    }
    task = task_of(published, 0)
    assert task is not None and task.messages == tuple(SAID)
    parameters = {
        "type": "object",
        "properties": {"type": {"type": "number"}, "b": {"type": "array", "items": {}}},
    }
    assert (
        task.tools[0]["function"]["parameters"]
        == parameters
        == task.schema["properties"]["arguments"]
    )
    assert task_of({"id": "x", "question": SAID, "tools": list(task.tools)}, 0) == task
    assert task_of({"messages": []}, 0) is None
    assert task_of({**published, "question": []}, 0) is None
    assert task_of({**published, "question": [[]]}, 0) is None


def test_a_record_with_an_id_of_null_is_named_by_its_number(tmp_path: Path) -> None:
    asked = {"id": None, "messages": SAID}
    lines = [asked, asked, asked | {"unique_id": "x"}]
    (tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, lines)))
    found = [task.name for task in load_tasks("own", tmp_path, 3)]
    assert found == ["0", "1", "x"]


def test_what_is_wrong_with_a_set_is_said(tmp_path: Path) -> None:
    with pytest.raises(
        InvalidParams, match=r"no data set others: .*chat, extraction, free_text, tools"
    ):
        load_tasks("others", tmp_path, 3)
    with pytest.raises(InvalidParams, match=r"0 of the \d+ tasks"):
        load_tasks("tools", None, 0)
    for name, text, message in (
        ("twice", '{"id": 1, "schema": {}}\n' * 2, "the same id"),
        ("list", "[1]", "record 0"),
        ("odd", '{"x": 1}', "record 0 of odd has an unknown format"),
        ("words", '{"messages": ["Hello"]}', "record 0 of words .*messages must be a list of"),
        ("one", '{"messages": {"role": "user", "content": "Hello"}}', "record 0 of one"),
        ("ask", '{"question": ["Hello"], "tools": []}', "record 0 of ask"),
        ("call", '{"messages": "Hello", "tools": ["f"]}', "record 0 of call .*tools must be"),
        ("text", '{"schema": {}}\n\n{', "as JSON Lines, line 3"),
        ("deep", "[" * 10**5, "as JSON Lines, line 1"),
    ):
        (tmp_path / f"{name}.jsonl").write_text(text)
        with pytest.raises(InvalidParams, match=message):
            load_tasks(name, tmp_path, 3)


def test_tasks_are_spread_over_the_set_and_a_folder_goes_before(tmp_path: Path) -> None:
    (tmp_path / "tools.jsonl").write_text(
        "\n".join(json.dumps({"schema": SCHEMA}) for _ in range(9))
    )
    assert [task.name for task in load_tasks("tools", tmp_path, 3)] == ["0", "3", "6"]


def test_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    def load_dataset(name: str, config: str | None) -> dict[str, list[dict[str, Any]]]:
        if name == "away":
            raise ConnectionError("Couldn't reach the Hub")
        return {
            split: [
                {"json_schema": json.dumps(SCHEMA), "unique_id": f"{name} {config} {split} {n}"}
                for n in range(9)
            ]
            for split in ("train", "test", "val")
        }

    hub = ModuleType("datasets")
    hub.load_dataset = load_dataset  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "datasets", hub)
    assert [task.name for task in load_tasks("hub:a/b", None, 2)] == [
        "a/b None test 0",
        "a/b None test 4",
    ]
    assert load_tasks("hub:a/b:val:easy", None, 1)[0].name == "a/b easy val 0"
    assert load_tasks("jsonschemabench", None, 1)[0].name == "epfl-dlab/JSONSchemaBench None test 0"
    with pytest.raises(InvalidParams, match="no split 'dev'; it has train, test, val"):
        load_tasks("hub:a/b:dev", None, 1)
    with pytest.raises(
        InvalidParams, match=r"cannot load hub:away: Couldn't reach the Hub. Check the network"
    ):
        load_tasks("hub:away", None, 1)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InvalidParams, match=r'pip install "specguide\[hub\]"'):
        load_tasks("jsonschemabench", None, 3)


@pytest.mark.parametrize("splits", [False, True])
def test_a_folder_that_the_library_saved(tmp_path: Path, splits: bool) -> None:
    datasets = pytest.importorskip("datasets")
    saved = datasets.Dataset.from_list(
        [{"prompt": SAID, "schema": json.dumps(SCHEMA), "completion": "{}"}] * 3
    )
    (datasets.DatasetDict({"train": saved}) if splits else saved).save_to_disk(
        str(tmp_path / "saved")
    )
    found = load_tasks(f"hub:{tmp_path / 'saved'}", None, 9)
    assert [task.name for task in found] == ["0", "1", "2"] and found[0].schema == SCHEMA
    assert [dict(message) for message in found[0].messages] == SAID
