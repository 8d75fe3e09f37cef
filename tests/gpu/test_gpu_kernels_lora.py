"""The products of LoRA adapters are those of the twin."""

from __future__ import annotations

from itertools import accumulate

import pytest
import torch
from gpu_case import DEVICE

from specguide.kernels import add_lora
from specguide.kernels.lora import LoraMatrices
from specguide.kernels.lora import add_lora as twin

pytestmark = [pytest.mark.gpu, pytest.mark.small]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("num_rows", "num_in", "sizes", "rank"),
    [
        (1, 4096, (96,), 16),
        (7, 200, (128, 40, 40), 16),
        (64, 1500, (300, 300), 128),
        (333, 264, (100, 28), 64),
    ],
)
def test_products_of_each_rows_adapter(
    dtype: torch.dtype, num_rows: int, num_in: int, sizes: tuple[int, ...], rank: int
) -> None:
    made = torch.Generator(DEVICE).manual_seed(0)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=made, device=DEVICE).to(dtype)

    a = random(3, len(sizes), rank, num_in) / num_in**0.5
    matrices = LoraMatrices(a, random(3, sum(sizes), rank), (0, *accumulate(sizes)))
    # Modules of transformers may give an input that lies in memory column by column.
    x = random(num_in, num_rows).T if num_rows == 7 else random(num_rows, num_in)
    product = random(num_rows, sum(sizes))
    ids = torch.randint(4, (num_rows,), generator=made, device=DEVICE, dtype=torch.int32)
    expected, found = product.clone(), product.clone()
    twin(expected, x, matrices, ids)
    add_lora(found, x, matrices, ids)
    atol = 2e-4 if dtype == torch.float32 else 0.15
    torch.testing.assert_close(found, expected, atol=atol, rtol=1e-2)
    assert torch.equal(found[ids == 0], product[ids == 0])
