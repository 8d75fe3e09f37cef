"""A short soak on a GPU: nothing hangs, nothing leaves its grammar, nothing is lost, and a stall is
not felt."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu


@pytest.mark.timeout(900)
def test_a_short_soak():
    command = [
        sys.executable,
        "-m",
        "benchmarks.soak",
        "--iterations",
        "400",
        "--batch",
        "16",
        "--samples",
        "4",
        "--seconds",
        "100",
        "--hang-seconds",
        "60",
        "--shares-gpu",
        "--no-save",
    ]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=800
    )
    assert done.returncode == 0, done.stderr[-6000:]
    rows = {row["phase"]: row for row in json.loads(done.stdout.splitlines()[-1])["result"]}
    assert list(rows) == ["spinners", "no spinners", "reference", "stall"]
    assert rows["spinners"]["spinners"] == 4 and rows["no spinners"]["decode_iterations"] >= 40
    assert rows["stall"]["held_slots_of_slow_request"] > 0
