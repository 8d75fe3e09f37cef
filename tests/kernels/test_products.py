"""When another algorithm than the library's own first choice is taken."""

from __future__ import annotations

import pytest
import torch

from specguide.kernels import products
from specguide.kernels.cublaslt import Shape
from specguide.kernels.products import Product


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
    assert products.best_of(times) == best


def test_small_weights_and_other_numbers_are_left_to_torch() -> None:
    x = torch.zeros(128, 4096, dtype=torch.bfloat16)
    large = torch.zeros(8192, 4096, dtype=torch.bfloat16)
    assert products.takes(x, large)
    assert not products.takes(x, large[:512])
    assert not products.takes(x.float(), large.float())
    assert not products.takes(x[:, ::2], large)
    assert products.product(x, large[:512]) is None


def test_ranks_take_what_the_first_of_them_has_found() -> None:
    device = torch.device("cpu")

    def one(num_rows: int, stream: int = 7, *, has_halves: bool = False) -> Product:
        types = torch.bfloat16, torch.bfloat16
        return Product(Shape(device, stream, *types, num_rows, 28672, 4096), has_halves)

    first = {one(128): 3, one(256): None}
    second = {one(128, stream=9): 1, one(256): 2, one(640): 5, one(128, has_halves=True): 4}
    said: list[torch.Tensor] = []
    for best in (first, second):
        products._agreed(best, device, lambda mine: said.append(mine) or mine[None])
    both = torch.stack(said)
    assert products._agreed(first, device, lambda _: both) == first
    agreed = products._agreed(second, device, lambda _: both)
    assert list(agreed.values()) == [3, None, 5, 4]


def test_without_a_gpu_nothing_is_chosen() -> None:
    with products.choosing(torch.device("cpu")):
        x = torch.zeros(8, 4096, dtype=torch.bfloat16)
        weight = torch.zeros(2048, 4096, dtype=torch.bfloat16)
        assert products.takes(x, weight) and not products._ways
