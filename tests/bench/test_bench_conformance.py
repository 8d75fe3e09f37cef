"""The conformance benchmark: schemas in the forms in use, what is counted, and that a broken-off
run goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from specguide.bench.conformance import Trial, measure
from specguide.bench.conformance_cases import Case, load_cases
from specguide.bench.conformance_report import num_let_by, summary
from specguide.bench.instances import BYTES
from specguide.cli import app
from specguide.config import GuideConfig
from specguide.errors import InvalidParams
from specguide.guide import Guide
from specguide.guided.compile import GrammarCompiler

AGE = {
    "type": "object",
    "properties": {"age": {"type": "integer", "minimum": 0}},
    "required": ["age"],
    "additionalProperties": False,
}
HARD = {"type": "array", "items": {"pattern": "^(?:b(?=ba))*$"}}


@pytest.fixture
def schemas(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    suite = folder / "draft7" / "optional"
    suite.mkdir(parents=True)
    (folder / "age.json").write_text(json.dumps(AGE))
    (folder / "age.valid.jsonl").write_text('{"age": 1}\n{"age": 20}\n')
    (folder / "age.invalid.jsonl").write_text('{"age": -1}\n{}\n')
    (folder / "true.json").write_text("true")
    (suite / "type.json").write_text(
        json.dumps(
            [
                {
                    "description": "d",
                    "schema": {"type": "null"},
                    "tests": [{"data": None, "valid": True}, {"data": 1, "valid": False}],
                },
                {"description": "e", "schema": HARD, "tests": [{"data": [], "valid": True}]},
            ]
        )
    )
    lines = [
        {"schema": AGE, "tests": [{"data": {"age": 1}, "valid": True}]},
        {"schema": AGE, "completion": '{"age": 2}'},
        {"json_schema": json.dumps(AGE), "data": {}, "valid": False},
        {
            "question": [],
            "tools": [{"type": "function", "function": {"name": "f", "parameters": AGE}}],
        },
        {"schema": {"const": 1}},
    ]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return folder


def test_forms_of_schemas_and_instances(schemas: Path) -> None:
    found = {case.name: case for case in load_cases([schemas])}
    assert {name: case.data_set for name, case in found.items()} == {
        "age": "mine",
        "true": "mine",
        "draft7/optional/type#0": "draft7/optional",
        "draft7/optional/type#1": "draft7/optional",
        "rows#0": "rows",
        "rows#4": "rows",
    }
    assert found["age"].instances == [
        ({"age": 1}, True),
        ({"age": 20}, True),
        ({"age": -1}, False),
        ({}, False),
    ]
    assert found["rows#0"].instances == [({"age": 1}, True), ({"age": 2}, True), ({}, False)]
    assert found["draft7/optional/type#0"].schema == {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "null",
    }
    assert [case.name for case in load_cases([schemas / "age.json"])] == ["age"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.json", "{", "x.json, JSON text 1"),
        ("x.jsonl", "{}\n{", "in a form that is known"),
        ("y.txt", "", "no schemas"),
        ("x.json", "[1]", "in a form that is known"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidParams, match=message):
        load_cases([tmp_path])
    with pytest.raises(InvalidParams, match="there is no"):
        load_cases([tmp_path / "none"])


def test_the_command_reports_and_goes_on(schemas: Path) -> None:
    out = schemas.parent / "out"
    args = [
        "bench",
        "conformance",
        str(schemas),
        "--backends",
        "auto,xgrammar",
        "--draws",
        "2",
        "--output",
        str(out),
    ]
    first = CliRunner().invoke(app, args)
    assert first.exit_code == 0, (first.output, first.exception)
    result = json.loads((out / "conformance.json").read_text())["result"]["auto"]
    assert result["mine"]["valid_taken"] == result["mine"]["invalid_refused"] == 2
    assert (
        result["mine"]["schemas"] == result["mine"]["compiled"] == 2
        and result["mine"]["texts_invalid"] == 0
    )
    assert result["draft7/optional"]["refused"] == 1 and result["draft7/optional"]["schemas"] == 2
    assert "`pattern`" in (out / "conformance.md").read_text()
    lines = (out / "auto.jsonl").read_text().splitlines()
    assert len(lines) == 6 and all(
        json.loads(line)["made_by"].startswith("specguide ") for line in lines
    )
    (out / "auto.jsonl").write_text("\n".join(lines[:4]) + "\n" + lines[4][:30])
    (schemas / "true.json").write_text('{"type": "boolean"}')
    again = CliRunner().invoke(app, args)
    assert again.exit_code == 0
    kept = (out / "auto.jsonl").read_text().splitlines()
    assert kept[:4] == lines[:4] and len(kept) == 4 + 2 + (
        "true" in {json.loads(line)["name"] for line in lines[:4]}
    )
    assert len(json.loads((out / "conformance.json").read_text())["result"]) == 2


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--backends", "outlines"], "'outlines' is not one of"),
        (["--draws", "-1"], "--draws must be"),
    ],
)
def test_wrong_options(schemas: Path, args: list[str], message: str) -> None:
    done = CliRunner().invoke(app, ["bench", "conformance", str(schemas), *args])
    assert isinstance(done.exception, InvalidParams) and message in str(done.exception)


class Loose:
    """Compiles all schemas as one that says less."""

    vocabulary = BYTES

    def __init__(self) -> None:
        self._compiler = GrammarCompiler(BYTES, GuideConfig())

    def compile(self, schema: Any) -> Any:
        return self._compiler.compile(
            Guide(
                json_schema={
                    "type": "object",
                    "properties": {"age": {"type": "integer"}},
                    "required": ["age"],
                    "additionalProperties": False,
                }
            )
        )

    def close(self) -> None:
        self._compiler.close()


def test_what_gets_by_is_found(tmp_path: Path) -> None:
    case = Case(
        "age", "mine", AGE, [({"age": 1}, True), ({"age": -1}, False), ({"age": "x"}, False)]
    )
    record = measure(Loose(), case, 40)
    assert record["valid_taken"] == record["invalid_taken"] == record["invalid_refused"] == 1
    assert record["texts_invalid"] > 0 < record["texts_valid"] and "takes" in record["faults"][0]
    counts = summary([{**record, "made_by": "me"}])
    assert (
        num_let_by(counts) == 1 + record["texts_invalid"] and counts["mine"]["schemas_clean"] == 0
    )
    kept = Trial(Loose, 2, "me", tmp_path / "r.jsonl").records([case, case])
    assert kept[0] == kept[1] and len((tmp_path / "r.jsonl").read_text().splitlines()) == 1
    (tmp_path / "r.jsonl").write_text("{}\n")
    with pytest.raises(InvalidParams, match="choose another --output"):
        Trial(Loose, 2, "me", tmp_path / "r.jsonl").records([case])
