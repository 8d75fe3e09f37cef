"""The Gluon kernel of weights of 4 bits on a Hopper GPU against its plain-torch twin."""

from __future__ import annotations

import pytest
import torch
from gpu_case import assert_near, check_replays, to_device
from int4_case import case
from small_cases import crossed
from torch import Tensor

from specguide.kernels import int4, int4_gated_linear, int4_linear, int4_linear_parts, triton

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("hopper_only")]


def assert_close(found: Tensor, expected: Tensor) -> None:
    assert_near(found.to(expected.dtype), expected, 3e-2)


@pytest.mark.parametrize(
    ("num_rows", "shape"),
    crossed(
        [33, 48, 64],
        [(512, 1024, 128), (256, 1000, 128), (256, 2048, 256), (256, 776, 64)],
        where=lambda num_rows, shape: num_rows == 48,
    ),
)
def test_products(num_rows: int, shape: tuple[int, int, int]) -> None:
    """The shapes are of whole groups and tiles, and of some whose last columns are missing."""
    x, matrix, bias = case((num_rows, *shape), torch.bfloat16, has_zeros=False)
    on_gpu = tuple(map(to_device, (x, matrix, bias)))
    launch = triton.int4_hopper.launch
    whole, gated = (launch(*on_gpu, 1, is_gated=is_gated)[0] for is_gated in (False, True))
    parts = launch(*on_gpu, matrix.words.shape[0], is_gated=False)
    assert_close(whole, int4.int4_linear(x, matrix, bias))
    assert_close(parts.float().sum(0), int4.int4_linear(x, matrix, bias))
    assert_close(gated, int4.int4_gated_linear(x, matrix, bias))


@pytest.mark.parametrize(
    ("num_rows", "shape"),
    crossed(
        [65, 128, 300],
        [(512, 1024, 128), (128, 1000, 128), (34048, 512, 64)],
        where=lambda num_rows, shape: num_rows == 65 and shape[1] == 1000,
    ),
)
def test_products_of_many_rows(num_rows: int, shape: tuple[int, int, int]) -> None:
    """The last: of so many features that programs are wide."""
    x, matrix, bias = case((num_rows, *shape), torch.bfloat16, has_zeros=False)
    on_gpu = tuple(map(to_device, (x, matrix, bias)))
    whole, parts = (
        triton.int4_hopper.launch(*on_gpu, num_splits, is_gated=False)
        for num_splits in (1, matrix.words.shape[0])
    )
    assert_close(whole[0], int4.int4_linear(x, matrix, bias))
    assert_close(parts.float().sum(0), int4.int4_linear(x, matrix, bias))


@pytest.mark.small
def test_rows_and_columns_of_a_matrix() -> None:
    """Views, of which no line begins where the tensor does."""
    x, matrix, _ = case((40, 512, 1024, 128), torch.bfloat16, has_zeros=False)
    part, inputs = matrix.rows(128, 384).columns(512, 1024), x[:, 512:]
    on_gpu = to_device(x)[:, 512:], to_device(matrix).rows(128, 384).columns(512, 1024)
    found = triton.int4_hopper.launch(*on_gpu, None, 1, is_gated=False)
    assert_close(found[0], int4.int4_linear(inputs, part))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="it is chosen on a GPU")
@pytest.mark.parametrize("num_rows", [33, 48, 64, 200, 300])
def test_operations_take_it(num_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, matrix, _ = case((num_rows, 32768, 1024, 128), torch.bfloat16, has_zeros=False)
    on_gpu = to_device(x), to_device(matrix)
    monkeypatch.setattr(triton.int4, "launch", None)
    assert_close(int4_linear(*on_gpu), int4.int4_linear(x, matrix))
    assert_close(int4_linear_parts(*on_gpu).float().sum(0), int4.int4_linear(x, matrix))
    assert_close(int4_gated_linear(*on_gpu), int4.int4_gated_linear(x, matrix))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="graphs are CUDA's")
def test_a_captured_chain() -> None:
    """Each kernel reads what the one before it wrote, though it takes its place before that has
    ended."""
    x, matrix, _ = case((48, 4096, 4096, 128), torch.bfloat16, has_zeros=False)
    gates_and_ups = case((48, 8192, 4096, 128), torch.bfloat16, has_zeros=False)[1]
    live, weight, both = map(to_device, (x, matrix, gates_and_ups))

    def chain() -> Tensor:
        value = live
        for _ in range(20):
            value = triton.int4_hopper.launch(value, both, None, 1, is_gated=True)[0]
            value = triton.int4_hopper.launch(value, weight, None, 4, is_gated=False).sum(0)
            value = torch.nn.functional.normalize(value, dim=1).mul(64.0).bfloat16()
        return value

    check_replays(chain)
