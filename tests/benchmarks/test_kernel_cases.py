"""The calls that benchmarks.kernels times can be made; here, of plain torch."""

from __future__ import annotations

import pytest
import torch

from benchmarks import kernels
from benchmarks.kernel_cases import inputs, int4

SMALLEST = {
    case.kernel: case for case in reversed(list(kernels.cases())) if case.kernel != "experts"
}
"""The first of each kernel; layers of experts are large."""


@pytest.mark.parametrize("name", SMALLEST)
def test_each_kernel_is_called_as_it_is_declared(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (inputs, int4):
        monkeypatch.setattr(module, "DEVICE", torch.device("cpu"))
    call, num_bytes = SMALLEST[name].make()
    assert num_bytes > 0
    assert call() is not None or name == "apply_bitmask"
