"""`specguide grammars certify` as users call it."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from specguide.cli import app
from specguide.errors import InvalidGuide, InvalidParams, UnsupportedGuide

SCHEMA = {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}
QUICK = ["--backend", "llguidance", "--masks", "20", "--walks", "1", "--changes", "5"]


def certified(*args: str) -> tuple[int, str, BaseException | None]:
    done = CliRunner().invoke(app, ["grammars", "certify", *QUICK, *args])
    return done.exit_code, done.output, done.exception


def test_it_tells_who_enforces_what_and_what_was_found(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(SCHEMA))
    (tmp_path / "mine.valid.jsonl").write_text('{"a": true, "b": "\u2028\x85"}\r\n', "utf-8")
    code, text, _ = certified(str(path))
    assert code == 0 and "enforced by llguidance" in text and "masks checked" in text, text
    code, text, _ = certified(str(path), "--json")
    found = json.loads(text)
    assert code == 0 and found["counts"]["instances"] == 1 and found["faults"] == []
    assert {"keyword": "required", "num": 1, "by": "llguidance", "alone": "enforced"} in found[
        "enforced"
    ]


def test_a_ready_schema_by_its_name() -> None:
    code, text, _ = certified("@measurement")
    assert code == 0 and text.startswith("@measurement: enforced by llguidance"), text


def test_mistakes_are_told(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    assert isinstance(certified(str(path))[2], InvalidParams)
    assert isinstance(certified("@csv")[2], InvalidGuide)
    path.write_text('{"pattern": "(a+)\\\\1"}')
    assert isinstance(certified(str(path))[2], UnsupportedGuide)
    path.write_text(f'{{"minimum": {"9" * 5000}}}')
    assert "is not valid JSON" in str(certified(str(path))[2])
    path.write_text("{}")
    assert "grammar backend 'nope'" in str(certified(str(path), "--backend", "nope")[2])
    (tmp_path / "mine.valid.jsonl").write_text("{")
    assert "must be valid JSON" in str(certified(str(path))[2])
