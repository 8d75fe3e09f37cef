"""When another algorithm than the library's own first choice is taken."""

from __future__ import annotations

import pytest
import torch

from specguide.kernels import cublaslt


@pytest.mark.parametrize(
    ("times", "best"),
    [
        ([], None),
        ([5.0], None),
        ([5.0, 4.95, 6.0], None),  # may be chance
        ([5.0, 4.8, 4.7, 4.9], 2),
        ([4.0, 4.8, 4.7], None),
    ],
)
def test_another_way_is_taken_where_it_is_clearly_faster(
    times: list[float], best: int | None
) -> None:
    assert cublaslt.best_of(times) == best


def test_small_weights_and_other_numbers_are_left_to_torch() -> None:
    x = torch.zeros(128, 4096, dtype=torch.bfloat16)
    large = torch.zeros(8192, 4096, dtype=torch.bfloat16)
    assert cublaslt.takes(x, large)
    assert not cublaslt.takes(x, large[:512])
    assert not cublaslt.takes(x.float(), large.float())
    assert not cublaslt.takes(x[:, ::2], large)
    assert cublaslt.product(x, large[:512]) is None
