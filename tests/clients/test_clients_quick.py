"""Of the client matrix, the clients that the tests have; `make clients` runs all of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
QUICK = ("openai_python", "anthropic_python")


@pytest.mark.parametrize("name", QUICK)
def test_all_cells_work(server, name):
    environ = os.environ | {
        "SPECGUIDE_URL": server.url,
        "SPECGUIDE_KEY": "a secret",
        "PYTHONPATH": str(HERE),
    }
    command = [sys.executable, str(HERE / "cases" / f"{name}.py")]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=120)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(told) == 4 and all(one["outcome"] == "works" for one in told), (told, done.stderr)


def test_every_case_says_what_it_needs():
    cases = {path.stem for path in (HERE / "cases").iterdir() if path.suffix in (".py", ".mjs")}
    assert cases == {path.stem for path in (HERE / "requirements").glob("*.txt")}
