"""What the Makefile names must exist."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_the_kernel_tests_to_sanitize_exist() -> None:
    root = Path(__file__).parent.parent
    tests = subprocess.run(
        ["make", "-s", "sanitized-tests"], cwd=root, check=True, capture_output=True, text=True
    )
    command = [sys.executable, "-m", "pytest", "--collect-only", "-qq", *tests.stdout.split()]
    found = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
