"""Triton products of float8 experts with float8 inputs against their plain-torch twins on a CPU."""

from __future__ import annotations

import math

import pytest
import torch
from gpu_case import IS_INTERPRETED, captured, to_device
from small_cases import crossed
from torch import Tensor

from specguide import kernels
from specguide.kernels import Float8Rows, Float8Scaling
from specguide.kernels import experts as twins
from specguide.kernels import experts_float8 as float8_twins
from specguide.kernels.experts import ExpertMatrices, GateLimits, Routing, RoutingRule
from specguide.kernels.float8 import FLOAT8, UnroundedRows, numbers, to_float8

pytestmark = pytest.mark.gpu

LIMITS = GateLimits(alpha=1.702, limit=1.5)
TOLERANCE = 1e-5 if IS_INTERPRETED else 1e-3
"""A GPU sums products of float8 with some 14 bits before it adds them up in float32."""
# The block of a weight's scales, and how inputs are rounded
FORMS = {
    "blocks": ((128, 128), Float8Scaling(is_grouped=True)),
    "rows": ((1, 2**20), Float8Scaling()),
    "static": ((1, 2**20), Float8Scaling(torch.tensor([0.05]))),
}
# tokens, experts, experts of a token, hidden and inner features
SHAPES = [
    (1, 8, 1, 128, 256),
    (5, 6, 3, 160, 96),
    (70, 4, 2, 256, 192),
    (4, 32, 8, 2048, 768),
    (300, 8, 4, 2880, 2880),
    (500, 16, 6, 2048, 1408),
]
SMALL = SHAPES[:3]


def random(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(math.prod(shape)))


def matrices_of(form: str, num: int, rows: int, columns: int, *, biased: bool) -> ExpertMatrices:
    block = FORMS[form][0]
    block = block[0], min(block[1], columns) if form != "blocks" else block[1]
    values = random(num, rows, columns).to(FLOAT8)
    scales = random(num, -(-rows // block[0]), -(-columns // block[1])).abs() * columns**-0.5
    return ExpertMatrices(values, scales, random(num, rows) if biased else None, block)


def on_device(rows: Float8Rows) -> Float8Rows:
    return Float8Rows(*(to_device(each.contiguous()) for each in rows))


def rows_of(given: Float8Rows | UnroundedRows) -> Float8Rows:
    """The rows that a product makes of those it is given."""
    if isinstance(given, Float8Rows):
        return given
    assert torch.equal(given.largest.amax(1), given.values.float().abs().amax(1))
    return kernels.to_float8(given.values, Float8Scaling())


def close(found: Tensor, expected: Tensor, tolerance: float) -> None:
    atol = tolerance * float(expected.float().abs().max())
    torch.testing.assert_close(
        found.float().cpu(), expected.float(), rtol=tolerance, atol=atol, equal_nan=True
    )


def both_routings(num_tokens: int, num_experts: int, num_chosen: int) -> tuple[Routing, Routing]:
    logits = random(num_tokens, num_experts)
    rule = RoutingRule(num_chosen)
    return twins.route(logits, rule), kernels.route(to_device(logits), rule)


def check(shape: tuple[int, int, int, int, int], form: str, dtype: torch.dtype) -> None:
    """A few of the inner features lie so near to the middle between two numbers of float8 that they
    are rounded the other way."""
    num_tokens, num_experts, num_chosen, hidden_size, inner_size = shape
    gate_up, down = (
        matrices_of(form, num_experts, *size, biased=inner_size == 96)
        for size in ((2 * inner_size, hidden_size), (hidden_size, inner_size))
    )
    scaling, limits = FORMS[form][1], LIMITS if inner_size == 96 else None
    routing, there = both_routings(num_tokens, num_experts, num_chosen)
    x = to_float8(random(num_tokens, hidden_size), scaling)
    case = on_device(x), to_device(gate_up), there, limits
    plain = float8_twins.gated_experts_float8(x, gate_up, routing, limits, None, dtype)
    found = kernels.gated_experts_float8(*case, None, dtype)
    assert isinstance(plain, Tensor) and isinstance(found, Tensor) and found.dtype == dtype
    close(found, plain, TOLERANCE if dtype == torch.float32 else 1e-2)
    inner = to_float8(plain, scaling)
    given = kernels.gated_experts_float8(*case, to_device(scaling), dtype)
    assert not isinstance(given, Tensor)
    rounded = rows_of(given)
    assert rounded.scale.shape == inner.scale.shape
    torch.testing.assert_close(rounded.scale.cpu(), inner.scale, rtol=1e-2, atol=1e-9)
    differ = rounded.values.cpu().float() != inner.values.float()
    assert differ.float().mean() < (0.03 if dtype == torch.float32 else 0.15)
    close(numbers(Float8Rows(*(each.cpu() for each in rounded))), numbers(inner), 0.15)
    if form == "rows":
        late = UnroundedRows(plain, plain.float().abs().amax(1, keepdim=True))
        both = (float8_twins.expert_parts_float8(it, down, routing, dtype) for it in (late, inner))
        assert torch.equal(*both)
    for found in (on_device(inner), given):
        rows = rows_of(found)
        inner = Float8Rows(rows.values.cpu(), rows.scale.cpu())
        expected = float8_twins.expert_parts_float8(inner, down, routing, dtype)
        parts = kernels.expert_parts_float8(found, to_device(down), there, dtype)
        close(parts, expected, TOLERANCE if dtype == torch.float32 else 1e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("shape", "form"), crossed(SHAPES, FORMS, where=lambda shape, form: shape in SMALL)
)
def test_products(shape: tuple[int, int, int, int, int], form: str, dtype: torch.dtype) -> None:
    check(shape, form, dtype)


@pytest.mark.small
@pytest.mark.parametrize("num_tokens", [3, 70])
@pytest.mark.parametrize("form", ["blocks", "rows"])
def test_products_of_some_of_the_experts(num_tokens: int, form: str) -> None:
    gate_up = matrices_of(form, 3, 256, 256, biased=False)
    down = matrices_of(form, 3, 256, 128, biased=False)
    logits, scaling = random(num_tokens, 8), FORMS[form][1]
    x = to_float8(random(num_tokens, 256), scaling)
    held = range(2, 5)
    routing = twins.route(logits, RoutingRule(3), held=held)
    there = kernels.route(to_device(logits), RoutingRule(3), held=held)
    dtype = torch.float32
    inner = float8_twins.gated_experts_float8(x, gate_up, routing, None, scaling, dtype)
    assert isinstance(inner, Float8Rows)
    expected = float8_twins.expert_parts_float8(inner, down, routing, dtype)
    case = on_device(x), to_device(gate_up), there, None, to_device(scaling), dtype
    found = kernels.gated_experts_float8(*case)
    assert not isinstance(found, Tensor)
    close(kernels.expert_parts_float8(found, to_device(down), there, dtype), expected, 1e-2)


@pytest.mark.small
@pytest.mark.parametrize("num_tokens", [1, 70])
def test_steps_in_flight_fit_into_the_memory_of_a_smaller_gpu(
    num_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    launches = pytest.importorskip("specguide.kernels.triton.experts_float8")
    monkeypatch.setattr(launches, "shared_memory", lambda device: 99 << 10)
    routing = kernels.route(to_device(random(num_tokens, 4)), RoutingRule(2))
    matrices = to_device(matrices_of("blocks", 4, 384, 256, biased=False))
    for is_gated in (True, False):
        tile = launches.choose_tile(matrices, routing, is_gated=is_gated)
        assert 0 < tile.num_stages * tile.stage_bytes(is_gated=is_gated) <= 99 << 10


@pytest.mark.skipif(IS_INTERPRETED, reason="graphs are CUDA's")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("num_tokens", [1, 4, 40, 500])
def test_a_graph_gives_the_same_in_every_run(num_tokens: int, form: str) -> None:
    gate_up = to_device(matrices_of(form, 64, 512, 256, biased=False))
    down = to_device(matrices_of(form, 64, 256, 256, biased=False))
    logits, scaling = to_device(random(num_tokens, 64)), to_device(FORMS[form][1])
    x = to_device(random(num_tokens, 256).bfloat16())

    def call() -> Tensor:
        routing = kernels.route(logits, RoutingRule(8))
        rows = kernels.to_float8(x, scaling)
        case = rows, gate_up, routing, None, scaling, torch.bfloat16
        inner = kernels.gated_experts_float8(*case)
        assert not isinstance(inner, Tensor)
        return kernels.expert_parts_float8(inner, down, routing, torch.bfloat16)

    graph, output = captured(call)
    for _ in range(3):
        logits.copy_(torch.randn_like(logits))
        expected = call().clone()
        for _ in range(3):
            graph.replay()
            assert torch.equal(output, expected)
