"""Triton kernels of float8 against their plain-torch twins on a CPU."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from gpu_case import DEVICE, captured, to_device
from small_cases import crossed
from torch import Tensor

from specguide import kernels
from specguide.kernels import Float8Rows, Float8Scaling, float8, pointwise
from specguide.kernels.float8 import FLOAT8

pytestmark = pytest.mark.gpu

DTYPES = [torch.bfloat16, torch.float16, torch.float32]
SCALINGS = {
    "token": Float8Scaling(),
    "group": Float8Scaling(is_grouped=True),
    "static": Float8Scaling(torch.tensor([0.01])),
}
ROWS = [(1, 256), (5, 384), (67, 4096), (3, 14336), (150, 17408)]


def assert_rounded_alike(found: Float8Rows, expected: Float8Rows) -> None:
    """Scales agree to a rounding; of the values, few lie so near to the middle between two that
    they are rounded the other way, and more where the scale differs."""
    torch.testing.assert_close(found.scale.cpu(), expected.scale, rtol=1e-2, atol=0)
    most = 0.03 if torch.equal(found.scale.cpu(), expected.scale) else 0.15
    values, wanted = found.values.float().cpu(), expected.values.float()
    differ = values != wanted
    assert differ.float().mean() < most
    torch.testing.assert_close(values[differ], wanted[differ], rtol=0.15, atol=2**-9)


def rows(num_rows: int, dim: int, dtype: torch.dtype) -> Tensor:
    x = torch.randn(num_rows, dim, generator=torch.Generator().manual_seed(dim)).to(dtype) * 3
    x[1:2] = 0
    return x


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "scaling"), crossed(ROWS, SCALINGS, where=lambda shape, scaling: shape == (5, 384))
)
def test_rounding(shape: tuple[int, int], scaling: str, dtype: torch.dtype) -> None:
    x, kind = rows(*shape, dtype), SCALINGS[scaling]
    found = kernels.to_float8(to_device(x), to_device(kind))
    assert_rounded_alike(found, float8.to_float8(x, kind))
    gate_up = torch.cat((x, x.flip(1)), dim=1)
    found = kernels.silu_mul_float8(to_device(gate_up), to_device(kind))
    assert_rounded_alike(found, float8.silu_mul_float8(gate_up, kind))
    assert_nan_stays(x, kind)


def assert_nan_stays(x: Tensor, kind: Float8Scaling) -> None:
    """NaN stays, so that a product of its row says that there was one; other rows do not notice."""
    expected, x[0, 3] = float8.to_float8(x, kind).values.float(), math.nan
    live, weight, there = to_device(x), to_device(torch.ones_like(x[0])), to_device(kind)
    gate_up = torch.cat((live, torch.ones_like(live)), dim=1)
    for rounded in (
        found := kernels.to_float8(live, there),
        kernels.rms_norm_float8(live, weight, 1e-5, there),
        kernels.silu_mul_float8(gate_up, there),
    ):
        values = rounded.values.float()
        assert values[0, 3].isnan() and values[1:].isfinite().all()
    differ = found.values[1:].float().cpu() != expected[1:]
    assert differ.sum() <= 0.03 * differ.numel()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "scaling"),
    crossed(ROWS[:3], SCALINGS, where=lambda shape, scaling: shape == (5, 384)),
)
def test_rounding_behind_a_norm(shape: tuple[int, int], scaling: str, dtype: torch.dtype) -> None:
    """The rows are those of the norm that is rounded apart, but for the order of its sum."""
    x, kind = rows(*shape, dtype), SCALINGS[scaling]
    weight = torch.rand(shape[1], generator=torch.Generator().manual_seed(1)).to(dtype) + 0.5
    parts = torch.stack((x.float(), x.flip(1).float(), 0.1 * x.float()))
    x_there, weight_there, kind_there = map(to_device, (x, weight, kind))
    found = kernels.rms_norm_float8(x_there, weight_there, 1e-5, kind_there)
    apart = kernels.to_float8(kernels.rms_norm(x_there, weight_there, 1e-5), kind_there)
    assert_rounded_alike(found, Float8Rows(apart.values.cpu(), apart.scale.cpu()))
    assert_rounded_alike(found, float8.rms_norm_float8(x, weight, 1e-5, kind))
    for num_parts, kept in ((3, torch.float32), (1, dtype)):
        some, plain = parts[:num_parts].to(kept), torch.empty_like(x)
        case, there = (x, some, weight, 1e-5, kind), torch.empty_like(x_there)
        total, found = kernels.add_rms_norm_float8(*map(to_device, case), kept=there)
        wanted, expected = float8.add_rms_norm_float8(*case, kept=plain)
        torch.testing.assert_close(there.cpu(), plain, rtol=1e-2, atol=5e-2)
        apart = kernels.to_float8(there, kind_there)
        assert torch.equal(found.values.cpu().float(), apart.values.cpu().float())
        torch.testing.assert_close(total.cpu(), wanted, rtol=1e-2, atol=5e-2)
        if dtype == torch.float32:  # else a sum rounded the other way may be the largest of its row
            assert_rounded_alike(found, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "scaling"),
    crossed(ROWS[:3], SCALINGS, where=lambda shape, scaling: shape == (5, 384)),
)
def test_products_are_scaled_by_who_reads_them(
    shape: tuple[int, int], scaling: str, dtype: torch.dtype
) -> None:
    """Products are as if they had been scaled before, but for rounding: what is scaled here is
    small integers."""
    kind, (num_rows, dim) = SCALINGS[scaling], shape
    x = rows(num_rows, dim, torch.float32).round().to(dtype)
    scales = kernels.ProductScales(
        2.0 ** -(torch.arange(num_rows) % 3)[:, None], 2.0 ** (torch.arange(2 * dim) % 5 - 3)
    )
    both = torch.cat((x, x.flip(1)), dim=1)
    before = kernels.scaled(both, scales).to(dtype)
    found = kernels.silu_mul_float8(*map(to_device, (both, kind, scales)))
    assert_rounded_alike(found, float8.silu_mul_float8(before, kind))
    assert_rounded_alike(found, float8.silu_mul_float8(both, kind, scales))
    some = kernels.ProductScales(scales.rows, scales.columns[:dim])
    residual, weight = 2 * x, torch.ones(dim, dtype=dtype)
    case = residual, x[None], weight, 1e-5
    there, apart = tuple(map(to_device, case)), before[None, :, :dim]
    total, normed = kernels.add_rms_norm(*there, to_device(some))
    wanted, expected = pointwise.add_rms_norm(residual, apart, weight, 1e-5)
    assert torch.equal(total.cpu(), wanted)
    torch.testing.assert_close(normed.cpu(), expected, rtol=1e-2, atol=1e-2)
    assert torch.equal(pointwise.add_rms_norm(*case, some)[0], wanted)
    total, found = kernels.add_rms_norm_float8(*there, to_device(kind), to_device(some))
    assert torch.equal(total.cpu(), wanted)
    assert_rounded_alike(found, float8.add_rms_norm_float8(*case, kind, some)[1])


SHAPES = [
    (1, 64, 512),
    (4, 200, 1024),
    (5, 512, 4096),
    (16, 6144, 4096),
    (64, 96, 2048),
    (65, 96, 2048),
    (300, 320, 1024),
    (3, 32, 192),
]
SMALL = SHAPES[0], SHAPES[1]


def product(num_rows: int, num_outputs: int, num_inputs: int, has_blocks: bool) -> tuple[Any, ...]:
    random = torch.Generator().manual_seed(num_outputs)
    x, weight = (
        torch.randn(shape, generator=random)
        for shape in ((num_rows, num_inputs), (num_outputs, num_inputs))
    )
    rounded = float8.to_float8(x, Float8Scaling(is_grouped=has_blocks))
    shape = (-(-num_outputs // 128), num_inputs // 128) if has_blocks else (num_outputs,)
    scale = torch.rand(shape, generator=random) * num_inputs**-0.5
    return rounded, weight.to(FLOAT8), scale, torch.randn(num_outputs, generator=random)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "has_blocks", "has_bias"),
    crossed(
        SHAPES,
        [False, True],
        [False, True],
        where=lambda shape, has_blocks, has_bias: shape in SMALL and has_bias,
    ),
)
def test_products(
    shape: tuple[int, int, int], has_blocks: bool, has_bias: bool, dtype: torch.dtype
) -> None:
    if has_blocks and shape[2] % 128:
        pytest.skip("blocks have 128 columns")
    x, weight, scale, bias = product(*shape, has_blocks)
    case = (x, weight, scale, bias.to(dtype) if has_bias else None)
    expected = float8.linear_float8(*case, torch.float32)
    found = kernels.linear_float8(*map(to_device, case), dtype)
    assert found.dtype == dtype
    tolerance = 1e-3 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(found.float().cpu(), expected, rtol=tolerance, atol=tolerance)
    parts, scales = kernels.linear_float8_parts(*map(to_device, case), dtype)
    found = kernels.scaled(parts.float().sum(0), scales)
    torch.testing.assert_close(found.cpu(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "scaling", "has_bias"),
    crossed(
        [(1, 512, 256), (5, 768, 1024), (40, 28672, 4096), (70, 512, 256), (1030, 512, 256)],
        SCALINGS,
        [False, True],
        where=lambda shape, scaling, has_bias: shape[0] == 5 and has_bias,
    ),
)
def test_gated_products(
    shape: tuple[int, int, int], scaling: str, has_bias: bool, dtype: torch.dtype
) -> None:
    x, weight, scale, bias = product(*shape, SCALINGS[scaling].is_grouped)
    case = (x, weight, scale, bias.to(dtype) if has_bias else None, SCALINGS[scaling])
    found = kernels.gated_linear_float8(*map(to_device, case), dtype)
    expected = float8.gated_linear_float8(*case, torch.float32)
    torch.testing.assert_close(of(found), of(expected), rtol=0.15, atol=0.1)
    close = (of(found) - of(expected)).abs() < 0.01 + 0.02 * of(expected).abs()
    assert close.float().mean() > 0.85


def of(rows: Float8Rows) -> Tensor:
    """The numbers that they stand for."""
    values, scale = rows.values.cpu().float(), rows.scale.cpu()
    return values * scale.repeat_interleave(values.shape[1] // scale.shape[1], 1)


@pytest.mark.parametrize("has_blocks", [False, True])
@pytest.mark.parametrize("num_rows", [1, 4, 17, 64, 65, 200, 2048])
def test_what_a_row_gives_does_not_depend_on_the_rows_beside_it(
    num_rows: int, has_blocks: bool
) -> None:
    """The rows beside it change no more than the rounding."""
    case = product(2048, 512, 4096, has_blocks)
    x, *weights = map(to_device, case)
    whole = kernels.linear_float8(x, *weights, torch.bfloat16)
    some = Float8Rows(x.values[:num_rows], x.scale[:num_rows])
    part = kernels.linear_float8(some, *weights, torch.bfloat16)
    torch.testing.assert_close(part, whole[:num_rows], rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("has_blocks", [False, True])
@pytest.mark.parametrize("num_rows", [4, 100])
def test_a_graph_computes_what_is_there_when_it_is_replayed(
    num_rows: int, has_blocks: bool
) -> None:
    _, weight, scale, bias = map(to_device, product(num_rows, 256, 512, has_blocks))
    residual = torch.randn(num_rows, 512, device=DEVICE, dtype=torch.bfloat16)
    norm = torch.ones(512, device=DEVICE, dtype=torch.bfloat16)
    scaling = Float8Scaling(is_grouped=has_blocks)

    def layer() -> Tensor:
        _, normed = kernels.add_rms_norm_float8(residual, residual[None], norm, 1e-5, scaling)
        return kernels.linear_float8(normed, weight, scale, bias.bfloat16(), torch.bfloat16)

    graph, output = captured(layer)
    residual.normal_()
    graph.replay()
    torch.testing.assert_close(output, layer())


def test_tiles_cover_every_shape() -> None:
    """There are more splits than the choice takes, and programs of all sizes."""
    from specguide.kernels.triton.linear_float8 import choose_tile, launch

    x, weight, scale, bias = map(to_device, product(70, 200, 1024, False))
    expected = float8.linear_float8(x, weight, scale, bias, torch.float32)
    tile = choose_tile(x, weight, scale, may_split=False)
    for rows_each in (16, 64, 128):
        for num_splits in (1, 2, 4):
            one = replace(tile, rows=rows_each, columns=128, num_splits=num_splits)
            found = launch(x, weight, scale, bias, torch.float32, one).sum(0)
            torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-3)
