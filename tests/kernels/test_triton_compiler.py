"""The plugin that compiles kernels without a GPU tells what the compiler refuses, and nothing
else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

ROOT = Path(__file__).parents[2]
KERNELS = """
import torch, triton, triton.language as tl

@triton.jit
def right(x, N: tl.constexpr):
    tl.store(x + tl.arange(0, N), tl.load(x + tl.arange(0, N)) + 1)

@triton.jit
def wrong(x, N: tl.constexpr):
    tl.store(x, tl.arange(0, N + 1))

def test_right(): right[(1,)](torch.zeros(16), 16)
def test_of_results(): right[(1,)](x := torch.zeros(16), 16); assert x[0] == 1
def test_wrong(): wrong[(1,)](torch.zeros(16), 16)
"""


def test_what_does_not_compile_fails(tmp_path):
    (tmp_path / "test_kernels.py").write_text(KERNELS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "triton_compiler", "-p", "no:xdist"]
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "tests" / "support")))
    not_passed_on = {"TRITON_INTERPRET", "PYTEST_ADDOPTS"}
    outer = {name: value for name, value in os.environ.items() if name not in not_passed_on}
    found = subprocess.run(
        [*command, "-rfp", "--rootdir", tmp_path, tmp_path],
        env=outer | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=200,
    )
    told = {
        line.split("::")[1].split()[0]: line.split()[0]
        for line in found.stdout.splitlines()
        if line.startswith(("FAILED", "PASSED"))
    }
    assert told == {
        "test_right": "PASSED",
        "test_of_results": "PASSED",
        "test_wrong": "FAILED",
    }, found.stdout + found.stderr
