"""Files that the command line reads and writes."""

from __future__ import annotations

from pathlib import Path

import pytest

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
