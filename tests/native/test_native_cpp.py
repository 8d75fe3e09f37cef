"""The C++ tests of the native core, built here: under the thread sanitizer where it runs."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = sorted(source.stem for source in (ROOT / "csrc" / "tests").glob("test_*.cc"))


def _tool(name: str) -> str:
    """A build tool of this environment, or of the machine."""
    found = shutil.which(
        name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    )
    if found is None:
        pytest.skip(f"building the C++ tests needs {name}: pip install {name}")
    return found


def _run(*command: str, timeout: float, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        timeout=timeout,
        env=os.environ | environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


@lru_cache
def _can_sanitize() -> bool:
    """Whether the thread sanitizer runs here: not with every kernel's layout of addresses."""
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "empty.cc", Path(folder) / "empty"
        source.write_text("int main() {}")
        built = _run("c++", "-fsanitize=thread", str(source), "-o", str(program), timeout=60)
        return built.returncode == 0 and _run(str(program), timeout=60).returncode == 0


def _built() -> Path:
    """Builds once for all test processes; returns the folder of the executables."""
    sanitizer = "thread" if _can_sanitize() else ""
    build = ROOT / "build" / f"cpp-{sanitizer or 'plain'}"
    build.mkdir(parents=True, exist_ok=True)
    with (build / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in (
            [
                _tool("cmake"),
                "-S",
                str(ROOT / "csrc"),
                "-B",
                str(build),
                "-G",
                "Ninja",
                f"-DCMAKE_MAKE_PROGRAM={_tool('ninja')}",
                "-DCMAKE_BUILD_TYPE=None",  # with assertions, and compiled in half the time
                "-DCMAKE_CXX_FLAGS=-O1",
                "-DSPECGUIDE_PYTHON=OFF",
                "-DSPECGUIDE_TESTS=ON",
                f"-DSPECGUIDE_SANITIZE={sanitizer}",
            ],
            [_tool("cmake"), "--build", str(build)],
        ):
            result = _run(*command, timeout=240)
            assert result.returncode == 0, result.stdout
    return build / "tests"


@pytest.mark.parametrize("name", TESTS)
def test_cpp(name: str) -> None:
    result = _run(str(_built() / name), timeout=200, SPECGUIDE_STRESS_ITERATIONS="200")
    assert result.returncode == 0, result.stdout
    assert "WARNING: ThreadSanitizer" not in result.stdout
