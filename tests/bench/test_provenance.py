"""What a record says of where it comes from."""

from __future__ import annotations

import re
import sys
from types import ModuleType, SimpleNamespace

import pytest

from specguide.bench.provenance import command, commit, provenance


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch):
    """Sets what the process was called with."""

    def call(*argv: str, module: str | None = None) -> None:
        main = ModuleType("__main__")
        main.__spec__ = SimpleNamespace(name=module) if module else None
        monkeypatch.setitem(sys.modules, "__main__", main)
        monkeypatch.setattr(sys, "argv", list(argv))

    return call


def test_the_command_is_as_one_would_type_it(called) -> None:
    called("/opt/venv/bin/specguide", "bench", "acceptance", "--forced", "0,8")
    assert command() == "specguide bench acceptance --forced 0,8"
    called("/opt/specguide/__main__.py", "doctor", module="specguide.__main__")
    assert command() == "python -m specguide doctor"
    called("/opt/benchmarks/iteration.py", "--modes", "tree 16", module="benchmarks.iteration")
    assert command() == "python -m benchmarks.iteration --modes 'tree 16'"
    called("tools/measure.py", "-v")
    assert command() == "python tools/measure.py -v"


def test_an_api_key_is_not_told_and_the_rest_is(called) -> None:
    called("specguide", "bench", "serve", "--api-key", "none", "--output", "none.json")
    assert provenance()["command"] == "specguide bench serve --api-key … --output none.json"
    called("specguide", "bench", "serve", "--api-key=a b", "--model", "a b")
    assert command() == "specguide bench serve --api-key=… --model 'a b'"


def test_what_it_was_made_with(called, monkeypatch: pytest.MonkeyPatch) -> None:
    called("specguide")
    monkeypatch.setenv("SPECGUIDE_COMMIT", "abc1234")
    found = provenance()
    assert (
        found.keys() == {"command", "version", "commit", "date", "hardware"}
        and found["commit"] == "abc1234"
    )
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", found["date"]) and found["hardware"]["num_cores"] > 0
    monkeypatch.delenv("SPECGUIDE_COMMIT")
    assert commit() is None or re.fullmatch(r"[0-9a-f]{7,40}\+?", commit() or "")
