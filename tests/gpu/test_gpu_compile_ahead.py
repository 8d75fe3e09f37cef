"""Kernels compiled ahead of their launches."""

from __future__ import annotations

import pytest
import torch

from specguide import kernels
from specguide.kernels.compile_ahead import rehearsal

pytestmark = pytest.mark.gpu


def test_a_rehearsed_kernel_is_compiled_and_not_launched_until_it_is_called_again():
    triton = pytest.importorskip("triton")
    x = torch.randn(3, 192, device="cuda")
    weight = torch.ones(192, device="cuda")
    compiled = []
    hook, triton.knobs.runtime.jit_post_compile_hook = (
        triton.knobs.runtime.jit_post_compile_hook,
        (lambda **what: compiled.append(what["fn"].name) and False),
    )
    try:
        with rehearsal(x.device, 2) as is_ahead:
            assert is_ahead
            assert not kernels.rms_norm(x, weight, 1e-5).any(), "nothing was computed"
        assert len(compiled) == 1
        found = kernels.rms_norm(x, weight, 1e-5)
        assert len(compiled) == 1, "compiled before"
    finally:
        triton.knobs.runtime.jit_post_compile_hook = hook
    expected = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert torch.empty.__name__ == "empty"
