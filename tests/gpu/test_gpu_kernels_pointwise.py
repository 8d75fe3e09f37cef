"""Triton norms and activation against their plain-torch twins on a CPU."""

from __future__ import annotations

import math

import pytest
import torch
from gpu_case import DEVICE, IS_INTERPRETED, assert_near, captured, to_device
from small_cases import small

from specguide.kernels import (
    add_rms_norm,
    limit_softly,
    norm_into,
    pointwise,
    rms_norm,
    silu_mul,
)

pytestmark = pytest.mark.gpu

TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 2e-2, torch.float16: 2e-3}


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    ("num_tokens", "dim"), [(1, 8), small(3, 96), (5, 576), (129, 2048), (4, 4096), (2, 8192)]
)
def test_norms(dtype: torch.dtype, num_tokens: int, dim: int) -> None:
    random = torch.Generator().manual_seed(dim)
    x, residual = (torch.randn(num_tokens, dim, generator=random).to(dtype) for _ in range(2))
    weight = (torch.rand(dim, generator=random) + 0.5).to(dtype)
    norm = rms_norm(to_device(x), to_device(weight), 1e-5)
    assert_near(norm, pointwise.rms_norm(x, weight, 1e-5), TOLERANCE[dtype])
    for parts in (x[None], torch.randn(3, num_tokens, dim, generator=random)):
        found = add_rms_norm(to_device(residual), to_device(parts), to_device(weight), 1e-5)
        for one, other in zip(
            found, pointwise.add_rms_norm(residual, parts, weight, 1e-5), strict=True
        ):
            assert_near(one, other, TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.small
def test_norms_of_rows_into_a_part_of_what_there_is(dtype: torch.dtype) -> None:
    random = torch.Generator().manual_seed(5)
    table, weight = (
        torch.randn(9, 96, generator=random).to(dtype),
        (torch.rand(96, generator=random) + 0.5).to(dtype),
    )
    for row_ids in (torch.tensor([8, 0, 0, 3]), torch.tensor([2, 7]).int(), None):
        output = torch.full((9 if row_ids is None else len(row_ids), 200), math.nan, dtype=dtype)
        live = to_device(output)
        pointwise.norm_into(output[:, 96:192], table, weight, 1e-5, row_ids)
        norm_into(live[:, 96:192], to_device(table), to_device(weight), 1e-5, to_device(row_ids))
        torch.testing.assert_close(
            live.cpu(), output, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype], equal_nan=True
        )


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("head_dim", [64, small(80), 128])
def test_norm_of_heads(dtype: torch.dtype, head_dim: int) -> None:
    random = torch.Generator().manual_seed(head_dim)
    fused = torch.randn(7, 9, head_dim, generator=random).to(dtype)
    weight = (torch.rand(6, head_dim, generator=random) + 0.5).to(dtype)
    norm = rms_norm(to_device(fused)[:, :6], to_device(weight), 1e-5)
    assert_near(norm, pointwise.rms_norm(fused[:, :6], weight, 1e-5), TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("num_tokens", "dim"), [small(1, 3), (5, 1536), (4, 14336), (200, 96)])
def test_silu_mul(dtype: torch.dtype, num_tokens: int, dim: int) -> None:
    gate_up = (
        torch.randn(num_tokens, 2 * dim, generator=torch.Generator().manual_seed(dim)) * 4
    ).to(dtype)
    assert_near(silu_mul(to_device(gate_up)), pointwise.silu_mul(gate_up), TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.small
def test_limit(dtype: torch.dtype) -> None:
    x = torch.cat([torch.linspace(-90, 90, 3000), torch.tensor([1e4, -1e4, 0.0])]).to(dtype)
    rows = to_device(x.expand(3, -1).contiguous())
    found = limit_softly(rows[:, :3003], 30.0)
    assert_near(found, pointwise.limit_softly(x.expand(3, -1).clone(), 30.0), TOLERANCE[dtype])


@pytest.mark.skipif(IS_INTERPRETED, reason="graphs are CUDA's")
def test_captured() -> None:
    x, weight = torch.zeros(4, 512, device=DEVICE), torch.ones(512, device=DEVICE)
    graph, outputs = captured(
        lambda: (rms_norm(x, weight, 1e-5), silu_mul(x), *add_rms_norm(x, x[None], weight, 1e-5))
    )
    fresh = torch.randn(4, 512)
    x.copy_(fresh)
    for output in outputs:
        output.fill_(math.nan)
    graph.replay()
    ones = torch.ones(512)
    expected = (
        pointwise.rms_norm(fresh, ones, 1e-5),
        pointwise.silu_mul(fresh),
        *pointwise.add_rms_norm(fresh, fresh[None], ones, 1e-5),
    )
    for found, wanted in zip(outputs, expected, strict=True):
        torch.testing.assert_close(found.cpu(), wanted, rtol=2e-6, atol=2e-6)
