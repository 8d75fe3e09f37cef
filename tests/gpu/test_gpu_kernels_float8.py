"""Triton kernels that round to float8 and multiply it, against their plain-torch twins on a CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from gpu_case import to_device
from small_cases import small
from torch import Tensor

from specguide.kernels import (
    Float8Rows,
    Float8Scaling,
    add_rms_norm_float8,
    float8,
    linear_float8,
    linear_float8_parts,
    rms_norm_float8,
    silu_mul_float8,
    to_float8,
)

pytestmark = pytest.mark.gpu

SCALINGS = {
    "rows": Float8Scaling(),
    "groups": Float8Scaling(is_grouped=True),
    "static": Float8Scaling(torch.tensor([0.01])),
}
DTYPE = torch.bfloat16


def random_rows(num_rows: int, dim: int, seed: int = 0) -> Tensor:
    return torch.randn(num_rows, dim, generator=torch.Generator().manual_seed(seed)).to(DTYPE)


def assert_rounded_alike(found: Float8Rows, expected: Float8Rows) -> None:
    """Numbers that lie between two of float8 may become either."""
    torch.testing.assert_close(found.scale.cpu(), expected.scale, rtol=1e-2, atol=0)
    values, wanted = found.values.cpu().float(), expected.values.float()
    torch.testing.assert_close(values, wanted, rtol=0.13, atol=2**-8)
    assert (values == wanted).float().mean() > 0.95


def check(operation: Callable[..., Any], twin: Callable[..., Any], *arguments: object) -> None:
    found, expected = operation(*map(to_device, arguments)), twin(*arguments)
    if not isinstance(expected, Float8Rows):
        torch.testing.assert_close(found[0].cpu(), expected[0], rtol=2e-2, atol=2e-2)
        found, expected = found[1], expected[1]
    assert_rounded_alike(found, expected)


@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize(("num_rows", "dim"), [small(3, 384), (70, 4096), (1, 128)])
def test_rounding(num_rows: int, dim: int, scaling: str) -> None:
    x, residual = random_rows(num_rows, dim), random_rows(num_rows, dim, seed=1)
    weight, how = random_rows(1, dim, seed=2)[0], SCALINGS[scaling]
    parts = torch.stack([residual, x]).float()
    check(to_float8, float8.to_float8, x, how)
    check(silu_mul_float8, float8.silu_mul_float8, torch.cat([x, residual], 1), how)
    check(rms_norm_float8, float8.rms_norm_float8, x, weight, 1e-5, how)
    check(add_rms_norm_float8, float8.add_rms_norm_float8, residual, parts, weight, 1e-5, how)


def weight_of(num_outputs: int, num_inputs: int, *, has_blocks: bool) -> tuple[Tensor, Tensor]:
    """Float8 weights and their scales, of blocks or of rows."""
    shape = (-(-num_outputs // 128), num_inputs // 128) if has_blocks else (num_outputs,)
    scale = torch.rand(shape, generator=torch.Generator().manual_seed(3)) / 50
    return random_rows(num_outputs, num_inputs, seed=4).to(float8.FLOAT8), scale + 0.01


@pytest.mark.parametrize("has_blocks", [False, True])
@pytest.mark.parametrize(
    ("num_rows", "num_outputs", "num_inputs"), [small(3, 40, 512), (60, 1000, 4096), (5, 300, 640)]
)
def test_products(num_rows: int, num_outputs: int, num_inputs: int, has_blocks: bool) -> None:
    weight, scale = weight_of(num_outputs, num_inputs, has_blocks=has_blocks)
    scaling = Float8Scaling(is_grouped=has_blocks)
    x = float8.to_float8(random_rows(num_rows, num_inputs), scaling)
    for bias in (None, random_rows(1, num_outputs, seed=5)[0]):
        arguments = (x, weight, scale, bias)
        expected = float8.linear_float8(*arguments, DTYPE).float()
        live = tuple(map(to_device, arguments))
        one, parts = linear_float8(*live, DTYPE), linear_float8_parts(*live, DTYPE)
        for found in (one, parts.float().sum(0)):
            torch.testing.assert_close(found.float().cpu(), expected, rtol=2e-2, atol=2e-2)
