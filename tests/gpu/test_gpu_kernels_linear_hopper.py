"""The Gluon kernel of products of few rows on a Hopper GPU against plain torch."""

from __future__ import annotations

import pytest
import torch
from gpu_case import assert_near, check_replays, to_device
from small_cases import crossed
from torch import Tensor

from specguide import kernels
from specguide.kernels import Float8Rows, Float8Scaling, float8, pointwise, triton
from specguide.kernels.float8 import FLOAT8
from specguide.kernels.pointwise import ProductScales

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("hopper_only")]

SHAPES = [(1, 192, 256), (8, 192, 2048), (13, 128, 1152), (33, 320, 1024), (64, 320, 4096)]
"""Rows, features and columns."""
SMALL = SHAPES[2]


def case(
    shape: tuple[int, int, int], dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor, ProductScales | None]:
    """Rows, weight, bias and scales, which float8 has."""
    num_rows, num_outputs, num_inputs = shape
    random = torch.Generator().manual_seed(num_inputs)
    x = torch.randn(num_rows, num_inputs, generator=random)
    weight = torch.randn(num_outputs, num_inputs, generator=random) * num_inputs**-0.5
    bias = torch.randn(num_outputs, generator=random)
    if dtype != FLOAT8:
        return x.to(dtype), weight.to(dtype), bias.to(dtype), None
    rows = float8.to_float8(x, Float8Scaling())
    columns = torch.rand(num_outputs, generator=random) + 0.5
    return rows.values, weight.to(FLOAT8), bias, ProductScales(rows.scale, columns)


def expected(x: Tensor, weight: Tensor, bias: Tensor, scales: ProductScales | None) -> Tensor:
    return pointwise.scaled(x.float() @ weight.float().T, scales) + bias.float()


@pytest.mark.parametrize(
    ("shape", "dtype"),
    crossed(
        SHAPES,
        [torch.bfloat16, torch.float16, FLOAT8],
        where=lambda shape, dtype: shape == SMALL,
    ),
)
def test_products(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    """The shapes are of whole tiles of features, and of some whose last are missing."""
    given = case(shape, dtype)
    x, weight, bias, scales = map(to_device, given)
    kept = torch.bfloat16 if dtype == FLOAT8 else dtype
    launch, choose_tile = triton.linear_hopper.launch, triton.linear_hopper.choose_tile
    wanted = expected(*given)
    tile = choose_tile(x, weight, is_gated=False, may_split=False)
    (whole,), _ = launch(x, weight, bias, kept, tile, scales)
    assert_near(whole.float(), wanted, 2e-2)
    tile = choose_tile(x, weight, is_gated=False, may_split=True)
    parts, _ = launch(x, weight, bias, kept, tile, scales)
    assert len(parts) == tile.num_splits
    assert_near(parts.float().sum(0), wanted, 2e-2)


@pytest.mark.parametrize("shape", crossed(SHAPES, where=lambda shape: shape == SMALL))
def test_products_of_blocks(shape: tuple[int, int, int]) -> None:
    """Each of 128 columns, and 128 features of the weight, has a scale."""
    num_rows, num_outputs, num_inputs = shape
    x, weight, bias, _ = case(shape, torch.float32)
    rows = float8.to_float8(x, Float8Scaling(is_grouped=True))
    random = torch.Generator().manual_seed(num_rows)
    scale = torch.rand(-(-num_outputs // 128), num_inputs // 128, generator=random) + 0.5
    given = rows, weight.to(FLOAT8), scale, bias
    wanted = float8.linear_float8(*given, torch.float32)
    values, there, added = map(to_device, (rows.values, given[1], bias))
    scales = ProductScales(to_device(rows.scale), to_device(scale))
    for may_split in (False, True):
        tile = triton.linear_hopper.choose_tile(values, there, is_gated=False, may_split=may_split)
        parts, _ = triton.linear_hopper.launch(values, there, added, torch.bfloat16, tile, scales)
        assert_near(parts.float().sum(0), wanted, 3e-2)


@pytest.mark.parametrize("shape", crossed(SHAPES, where=lambda shape: shape == SMALL))
def test_gated_products(shape: tuple[int, int, int]) -> None:
    given = case((shape[0], 2 * 192, shape[2]), FLOAT8)
    x, weight, bias, scales = map(to_device, given)
    tile = triton.linear_hopper.choose_tile(x, weight, is_gated=True, may_split=False)
    (found,), largest = triton.linear_hopper.launch(
        x, weight, bias, torch.bfloat16, tile, scales, is_gated=True
    )
    assert_near(found.float(), pointwise.silu_mul(expected(*given)), 3e-2)
    assert torch.equal(largest.amax(1), found.float().abs().amax(1))


@pytest.mark.small
def test_rows_and_columns_of_a_matrix() -> None:
    """Views, of which no line begins where the tensor does."""
    x, weight, _, _ = case((40, 512, 1024), torch.bfloat16)
    wanted = pointwise.linear(x[:, 512:], weight[128:384, 512:])
    there, part = to_device(x)[:, 512:], to_device(weight)[128:384, 512:]
    tile = triton.linear_hopper.choose_tile(there, part, is_gated=False, may_split=False)
    (found,), _ = triton.linear_hopper.launch(there, part, None, torch.bfloat16, tile)
    assert_near(found, wanted, 2e-2)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="it is chosen on a GPU")
@pytest.mark.parametrize("num_rows", [1, 64])
def test_operations_take_it(num_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight, _, _ = map(to_device, case((num_rows, 4096, 2048), torch.bfloat16))
    monkeypatch.setattr(triton.linear, "choose_tile", None)
    wanted = (x @ weight.T).cpu()
    assert_near(kernels.linear(x, weight), wanted, 2e-2)
    assert_near(kernels.linear_parts(x, weight).sum(0).bfloat16(), wanted, 2e-2)
    given = case((num_rows, 4096, 2048), FLOAT8)
    values, weight, _, scales = map(to_device, given)
    monkeypatch.setattr(triton.linear_float8, "choose_tile", None)
    rows, kept = Float8Rows(values, scales.rows), torch.bfloat16
    found = kernels.linear_float8(rows, weight, scales.columns, None, kept)
    wanted = expected(*given[:2], torch.zeros(()), given[3])
    assert_near(found.float(), wanted, 2e-2)
    parts, left = kernels.linear_float8_parts(rows, weight, scales.columns, None, kept)
    assert left is None
    assert_near(parts.float().sum(0), wanted, 2e-2)
    gated = rows, weight, scales.columns, None, Float8Scaling(), kept
    found = kernels.gated_linear_float8(*gated)
    activated = pointwise.silu_mul(wanted)
    assert_near(found.values.float() * found.scale, activated, 0.1)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="graphs are CUDA's")
@pytest.mark.parametrize("num_rows", [4, 64])
def test_a_captured_chain(num_rows: int) -> None:
    """Each kernel reads what the one before it wrote, though it takes its place before that has
    ended."""
    live, weight, _, _ = map(to_device, case((num_rows, 4096, 4096), torch.bfloat16))
    norm = torch.ones(4096, dtype=torch.bfloat16, device=live.device)

    def chain() -> Tensor:
        value = live
        for _ in range(20):
            parts = kernels.linear_parts(value, weight)
            value = kernels.add_rms_norm(torch.zeros_like(value), parts, norm, 1e-5)[1]
            value = kernels.linear(value, weight)
        return value

    check_replays(chain)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="graphs are CUDA's")
@pytest.mark.parametrize("num_rows", [4, 64])
def test_a_captured_chain_of_float8(num_rows: int) -> None:
    x, weight, _, scales = map(to_device, case((num_rows, 4096, 2048), FLOAT8))
    down = to_device(case((1, 2048, 2048), FLOAT8)[1])
    norm = torch.ones(2048, dtype=torch.bfloat16, device=x.device)
    live, kept = Float8Rows(x, scales.rows), torch.bfloat16
    residual = torch.zeros(num_rows, 2048, dtype=kept, device=x.device)
    columns = scales.columns

    def chain() -> Tensor:
        rows, total = live, residual
        for _ in range(20):
            gated = rows, weight, columns, None, Float8Scaling(), kept
            rows = kernels.gated_linear_float8(*gated)
            parts, _ = kernels.linear_float8_parts(rows, down, columns[:2048], None, kept)
            given = residual, parts, norm, 1e-5, Float8Scaling()
            total, rows = kernels.add_rms_norm_float8(*given)
        return total

    check_replays(chain)
