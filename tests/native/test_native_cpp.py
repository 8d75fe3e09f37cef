"""The C++ tests of the native core: built here and run, the executor's stress tests also under the
thread sanitizer."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
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


def _build(folder: str, target: str, *options: str) -> Path:
    """Builds once for all test processes; returns the folder of the executables."""
    build = ROOT / "build" / folder
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
                *options,
            ],
            [_tool("cmake"), "--build", str(build), "--target", target],
        ):
            result = _run(*command, timeout=240)
            assert result.returncode == 0, result.stdout
    return build / "tests"


@pytest.mark.parametrize("name", TESTS)
def test_cpp(name: str) -> None:
    result = _run(str(_build("cpp", "all") / name), timeout=120, SPECGUIDE_STRESS_ITERATIONS="800")
    assert result.returncode == 0, result.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", ["test_executor_stress", "test_executor_tree_stress"])
def test_no_data_race_under_stress(name: str) -> None:
    folder = _build("cpp-thread", name, "-DSPECGUIDE_SANITIZE=thread")
    result = _run(str(folder / name), timeout=120, SPECGUIDE_STRESS_ITERATIONS="300")
    if "unexpected memory mapping" in result.stdout:
        pytest.skip("the thread sanitizer cannot run under this kernel's address space layout")
    assert result.returncode == 0, result.stdout
    assert "WARNING: ThreadSanitizer" not in result.stdout
