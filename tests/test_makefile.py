"""What `make sanitize-gpu` runs: the kernel tests that are marked `small`."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent


def collected(*arguments: str) -> list[str]:
    """The tests that pytest finds."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-o", "addopts=", "-q", *arguments]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
    return [line for line in found.stdout.splitlines() if "::" in line]


def test_small_kernel_tests_are_some_of_each_kind() -> None:
    recipe = subprocess.run(
        ["make", "-n", "sanitize-gpu"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    assert recipe.count("-m small tests/gpu") == 2  # memcheck, then racecheck
    tests = collected("-m", "small", "tests/gpu")
    assert 40 <= len(tests) <= 270, "a sanitizer takes minutes for so many"
    files = Counter(re.sub(r"::.*", "", test) for test in tests)
    kernel_files = [path for path in (ROOT / "tests/gpu").glob("test_gpu_kernels_*.py")]
    without = {path.name for path in kernel_files} - {Path(file).name for file in files}
    assert without == {"test_gpu_kernels_decoder.py"}  # whole models, of the same kernels
    assert all(Path(file).name.startswith("test_gpu_kernels_") for file in files)
