"""What `make sanitize-gpu` runs: the kernel tests that are marked `small`."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


class Collected:
    """Notes the tests that pytest finds."""

    def __init__(self) -> None:
        self.node_ids: list[str] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.node_ids = [item.nodeid for item in session.items]


def collected(*arguments: str) -> list[str]:
    """The tests that pytest finds, here, where the modules are imported already."""
    found = Collected()
    without = (f"-pno:{name}" for name in ("xdist", "timeout", "faulthandler", "cacheprovider"))
    options = ["--collect-only", "-qq", "-o", "addopts=", "--rootdir", str(ROOT), *without]
    assert pytest.main([*options, *arguments], plugins=[found]) == pytest.ExitCode.OK
    return found.node_ids


def test_small_kernel_tests_are_some_of_each_kind() -> None:
    recipe = subprocess.run(
        ["make", "-n", "sanitize-gpu"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    assert recipe.count("-m small tests/gpu") == 2  # memcheck, then racecheck
    tests = collected("-m", "small", str(ROOT / "tests/gpu"))
    assert 40 <= len(tests) <= 340, "a sanitizer takes minutes for so many"
    files = Counter(re.sub(r"::.*", "", test) for test in tests)
    kernel_files = [path for path in (ROOT / "tests/gpu").glob("test_gpu_kernels_*.py")]
    without = {path.name for path in kernel_files} - {Path(file).name for file in files}
    assert without == {"test_gpu_kernels_decoder.py"}  # whole models, of the same kernels
    assert all(Path(file).name.startswith("test_gpu_kernels_") for file in files)
