"""Options: the files that they name, and how --help shows them."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from specguide.cli import app
from specguide.cli.options import read_json, read_text, write_text
from specguide.errors import InvalidParams


def test_files_are_utf8_with_a_byte_order_mark_or_without(tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    for mark in ("", "\ufeff"):
        path.write_bytes((mark + '{"const": "é"}').encode())
        assert read_json(path) == {"const": "é"}
    write_text(path, "é")
    assert read_text(path) == "é\n"
    assert path.read_bytes() == "é\n".encode()
    path.write_bytes(b"\xe9")
    with pytest.raises(InvalidParams, match="cannot read"):
        read_text(path)


@pytest.mark.parametrize("name", ["generate", "chat", "serve"])
def test_help_has_each_name_in_full_on_80_columns(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = CliRunner().invoke(app, [name, "--help"]).output
    options = typer.main.get_command(app).commands[name].params
    names = [written for option in options for written in option.opts if written[:2] == "--"]
    assert [written for written in names if f"│ {written} " not in shown] == []
    assert "off with --no-mixed-iterations" in " ".join(shown.replace("│", " ").split())
