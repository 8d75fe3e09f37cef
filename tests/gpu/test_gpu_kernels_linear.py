"""Triton products of few rows against their plain-torch twins on a CPU."""

from __future__ import annotations

import pytest
import torch
from gpu_case import IS_INTERPRETED, assert_near, check_replays, to_device
from small_cases import crossed
from torch import Tensor

from specguide.kernels import gated_linear, linear, linear_parts, pointwise

pytestmark = pytest.mark.gpu

TOLERANCE = {torch.bfloat16: 2e-2, torch.float16: 3e-3, torch.float32: 1e-5}
SHAPES = [
    (1, 64, 512),
    (4, 200, 1024),
    (5, 512, 4096),
    (16, 1000, 640),
    (64, 96, 2048),
    (65, 96, 2048),
    (200, 320, 1024),
    (3, 24, 576),
]
SMALL = SHAPES[0], SHAPES[1], SHAPES[3]


def case(
    num_rows: int, num_outputs: int, num_inputs: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(num_outputs)
    x, weight, bias = (
        torch.randn(shape, generator=random).to(dtype)
        for shape in ((num_rows, num_inputs), (num_outputs, num_inputs), (num_outputs,))
    )
    return x, weight * num_inputs**-0.5, bias


def assert_close(found: Tensor, expected: Tensor) -> None:
    assert_near(found.to(expected.dtype), expected, TOLERANCE[expected.dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    ("shape", "has_bias"),
    crossed(
        SHAPES,
        [False, True],
        where=lambda shape, has_bias: has_bias == (shape in SHAPES[:2]) and shape in SMALL,
    ),
)
def test_products(shape: tuple[int, int, int], dtype: torch.dtype, has_bias: bool) -> None:
    x, weight, bias = case(*shape, dtype)
    on_cpu = (x, weight, bias if has_bias else None)
    on_gpu = tuple(map(to_device, on_cpu))
    assert_close(linear(*on_gpu), pointwise.linear(*on_cpu))
    assert_close(linear_parts(*on_gpu).float().sum(0), pointwise.linear_parts(*on_cpu)[0])
    assert_close(gated_linear(*on_gpu), pointwise.gated_linear(*on_cpu))


def test_rows_that_lie_apart() -> None:
    x, weight, _ = case(8, 128, 1024, torch.bfloat16)
    assert_close(linear(to_device(x)[::2], to_device(weight)), pointwise.linear(x[::2], weight))


@pytest.mark.skipif(IS_INTERPRETED, reason="graphs are CUDA's")
def test_a_captured_chain() -> None:
    """Each kernel reads what the one before it wrote, though it takes its place before that has
    ended."""
    x, weight, _ = case(4, 4096, 4096, torch.bfloat16)
    live, live_weight = to_device(x), to_device(weight)

    def chain() -> Tensor:
        value = live
        for _ in range(20):
            value = linear_parts(value, live_weight).sum(0).to(value.dtype)
            value = linear(value, live_weight)
        return value

    check_replays(chain)
