"""docs/acceptance.md: what records become, and that it is never stale."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import acceptance_page

HARDWARE = {"cpu": "Chip", "num_cores": 2}


def figures(drafter: str, **changed: Any) -> dict[str, Any]:
    return {
        "set_name": "bfcl",
        "drafter": drafter,
        "guided_drafts": True,
        "num_draft_tokens": 0,
        "num_forced": 0,
        "acceptance_length": 1.0,
        "requests": 10,
        "guided": 10,
        "whole": 9,
        "invalid": [],
        "judged": 8,
        "right": 5,
        "differ_from_plain": 0,
        "errors": {},
        **changed,
    }


def write(root: Path, result: list[dict[str, Any]]) -> None:
    (root / "docs").mkdir(exist_ok=True)
    folder = root / "benchmarks" / "results"
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "model": "small.gguf",
        "samples": 10,
        "max_chars": None,
        "max_tokens": 64,
        "max_whitespace": 0,
        "closed_objects": True,
        "dtype": "float32",
    }
    record = {
        "config": config,
        "result": result,
        "hardware": HARDWARE,
        "version": None,
        "commit": "abc1234",
        "date": "2026-01-01",
        "command": "specguide bench acceptance",
    }
    (folder / "acceptance_real_small.json").write_text(json.dumps(record))


def test_the_page_is_what_the_records_give() -> None:
    acceptance_page.main(["--check"])


def test_what_a_record_becomes(tmp_path: Path) -> None:
    drafted = figures(
        "ngram", num_draft_tokens=3, acceptance_length=1.234, errors={"UnsupportedGuide": 3}
    )
    free = figures("plain", set_name="chat", guided=0, judged=0)
    write(
        tmp_path,
        [
            figures("plain"),
            figures("unguided", invalid=["a", "b"], right=1),
            drafted | {"commit": "def5678"},
            free,
        ],
    )
    acceptance_page.main([], root=tmp_path)
    page = (tmp_path / acceptance_page.PAGE).read_text()
    for line in (
        "| drafter | drafts | K | F | bfcl | chat |",
        "| ngram | guided | 3 | 0 | 1.23 | – |",
        "| bfcl | yes | 10 | 9 | 9 | 5 of 8 | 0 of 7 |",
        "| bfcl | no | 10 | 9 | 7 | 1 of 8 | – |",
        "| chat | no | 10 | – | – | – | 0 of 0 |",
    ):
        assert line in page
    assert "2 cores of an Chip, commit abc1234, def5678" in page and "## small.gguf" in page
    assert "compact JSON; no properties that the schema does not name; float32" in page
    acceptance_page.main(["--check"], root=tmp_path)
    write(tmp_path, [figures("plain", right=6)])
    with pytest.raises(SystemExit, match=r"docs/acceptance\.md: not what the records give"):
        acceptance_page.main(["--check"], root=tmp_path)


def test_a_record_of_several_loads_is_refused(tmp_path: Path) -> None:
    write(tmp_path, [figures("ngram"), figures("ngram", acceptance_length=2.0)])
    with pytest.raises(SystemExit, match="several backends or loads"):
        acceptance_page.main([], root=tmp_path)


def test_a_record_of_files_that_no_commit_has_is_refused(tmp_path: Path) -> None:
    write(tmp_path, [figures("plain")])
    file = tmp_path / "benchmarks" / "results" / "acceptance_real_small.json"
    file.write_text(file.read_text().replace("abc1234", "abc1234+"))
    with pytest.raises(SystemExit, match=r"small\.gguf is of no commit, but of abc1234\+"):
        acceptance_page.main([], root=tmp_path)
