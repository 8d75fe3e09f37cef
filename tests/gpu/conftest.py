"""Owns on which device the kernel tests run: a GPU, or a CPU with Triton's interpreter; those of
Gluon kernels on a Hopper GPU alone, and where kernels are compiled for one and none runs."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest
import torch
import triton_interpreter
from gpu_case import IS_INTERPRETED


@pytest.fixture(autouse=True)
def kernels_on_the_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Operations run Triton's kernels, whichever device it is."""
    if IS_INTERPRETED:
        triton_interpreter.put_in(monkeypatch)
    with np.errstate(all="ignore"):  # the interpreter computes with NumPy, which warns of log(0)
        yield


@pytest.fixture
def hopper_only() -> None:
    """Skip tests on other devices."""
    pytest.importorskip("triton.experimental.gluon.nvidia.hopper")
    is_hopper = torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)
    if not is_hopper and (torch.cuda.is_available() or os.environ.get("TRITON_INTERPRET") == "1"):
        pytest.skip("needs a Hopper GPU")
