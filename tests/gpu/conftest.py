"""Owns on which device the kernel tests run: a GPU, or a CPU with Triton's interpreter."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import triton_interpreter
from gpu_case import IS_INTERPRETED


@pytest.fixture(autouse=True)
def kernels_on_the_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Operations run Triton's kernels, whichever device it is."""
    if IS_INTERPRETED:
        triton_interpreter.put_in(monkeypatch)
    with np.errstate(all="ignore"):  # the interpreter computes with NumPy, which warns of log(0)
        yield
