"""The kernel of the loss that draft heads are trained with."""

from __future__ import annotations

import pytest
import torch
from gpu_case import DEVICE
from small_cases import small

from training.heads.softmax_kernel import launch

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    ("num_rows", "width"), [small(3, 96), small(2, 5000), pytest.param(64, 49_152)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_logits_become_their_scaled_softmax(num_rows: int, width: int, dtype: torch.dtype) -> None:
    """The rows lie apart, and their largest logits are far from 0."""
    random = torch.Generator().manual_seed(width)
    apart = 8 * torch.randn(num_rows, width + 32, generator=random)
    logits = (apart.to(dtype) + 40).to(DEVICE)
    scale = torch.rand(num_rows, generator=random).to(DEVICE)
    values = logits[:, :width].float().clone()
    rest = logits[:, width:].clone()
    log_sums = launch(logits[:, :width], scale)
    torch.testing.assert_close(log_sums, values.logsumexp(-1))
    wanted = scale[:, None] * values.softmax(-1)
    torch.testing.assert_close(logits[:, :width], wanted.to(dtype), rtol=1e-2, atol=1e-5)
    assert torch.equal(logits[:, width:], rest)
