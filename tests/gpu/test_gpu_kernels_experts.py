"""Triton routing and products of experts against their plain-torch twins on a CPU."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from gpu_case import IS_INTERPRETED, captured, to_device
from small_cases import crossed, small
from torch import Tensor

from specguide import kernels
from specguide.kernels import experts as twins
from specguide.kernels.experts import (
    GELU_TANH,
    AnyExperts,
    ExpertMatrices,
    GateLimits,
    Int4Experts,
    Routing,
    RoutingRule,
)
from specguide.kernels.int4 import pack_words

pytestmark = pytest.mark.gpu

TOLERANCE = {torch.float32: 1e-4, torch.bfloat16: 2e-2}
LIMITS = GateLimits(alpha=1.702, limit=1.5)

Make = Callable[[int, int, int, torch.dtype], AnyExperts]


def random(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(math.prod(shape)))


def plain(num: int, rows: int, columns: int, dtype: torch.dtype) -> ExpertMatrices:
    return ExpertMatrices((random(num, rows, columns) * columns**-0.5).to(dtype))


def biased(num: int, rows: int, columns: int, dtype: torch.dtype) -> ExpertMatrices:
    bias = random(num, rows).to(dtype)
    return ExpertMatrices(plain(num, rows, columns, dtype).values, None, bias)


def mxfp4(num: int, rows: int, columns: int, dtype: torch.dtype) -> ExpertMatrices:
    generator = torch.Generator().manual_seed(rows)
    shape = (num, rows, columns)
    values = torch.randint(0, 256, (*shape[:2], columns // 2), generator=generator).byte()
    scales = torch.randint(118, 124, (*shape[:2], columns // 32), generator=generator).byte()
    return ExpertMatrices(values, scales, random(num, rows).to(dtype))


def int4(num: int, rows: int, columns: int, dtype: torch.dtype) -> Int4Experts:
    """Random matrices with zeros, in groups of 32."""
    generator = torch.Generator().manual_seed(rows)
    numbers = torch.randint(0, 16, (num, rows, columns), generator=generator).byte()
    words = torch.stack([pack_words(each, 32) for each in numbers])
    groups = (num, -(-columns // 32), rows)
    zeros = torch.randint(0, 16, groups, generator=generator).byte()
    scales = (random(*groups).abs() * 0.2 * columns**-0.5).to(dtype)
    return Int4Experts(words, scales, zeros, None, 32, columns)


def int4_symmetric(num: int, rows: int, columns: int, dtype: torch.dtype) -> Int4Experts:
    """Random matrices with a bias, in groups of 128."""
    generator = torch.Generator().manual_seed(rows)
    numbers = torch.randint(0, 16, (num, rows, columns), generator=generator).byte()
    words = torch.stack([pack_words(each, 128) for each in numbers])
    scales = (random(num, -(-columns // 128), rows).abs() * 0.2 * columns**-0.5).to(dtype)
    return Int4Experts(words, scales, None, random(num, rows).to(dtype), 128, columns)


FORMS: dict[str, Make] = {
    "plain": plain,
    "biased": biased,
    "mxfp4": mxfp4,
    "int4": int4,
    "int4 symmetric": int4_symmetric,
}

# tokens, experts, experts of a token, hidden and inner features
SHAPES = [
    (1, 8, 2, 128, 256),
    (5, 6, 3, 160, 96),
    (70, 4, 2, 64, 128),
    (4, 128, 8, 2048, 768),
    (300, 32, 4, 2880, 2880),
]
SMALL = SHAPES[:3]


def pairs_of(routing: Routing) -> list[tuple[int, int]]:
    """Expert and pair, block by block."""
    blocks = routing.blocks
    assert blocks is not None
    pairs = blocks.pairs.view(-1, blocks.rows).tolist()
    sizes, experts = blocks.sizes.tolist(), blocks.experts.tolist()
    return [
        (experts[block], pair)
        for block in range(int(blocks.num))
        for pair in pairs[block][: sizes[block]]
    ]


def check_routing(
    logits: Tensor,
    rule: RoutingRule,
    bias: Tensor | None = None,
    held: range | None = None,
    factors: Tensor | None = None,
) -> None:
    """Check that each expert has its pairs, in order."""
    found = kernels.route(to_device(logits), rule, to_device(bias), held, to_device(factors))
    expected = twins.route(logits, rule, bias, held, factors)
    torch.testing.assert_close(found.weights.cpu(), expected.weights, rtol=1e-4, atol=1e-6)
    assert expected.experts is not None and found.is_whole == expected.is_whole
    experts = expected.experts.flatten().tolist()
    assert pairs_of(found) == sorted(
        (expert, pair) for pair, expert in enumerate(experts) if expert >= 0
    )


@pytest.mark.parametrize("is_normalised", [False, True])
@pytest.mark.parametrize(
    ("num_tokens", "num_experts", "num_chosen"),
    [
        small(1, 8, 2),
        small(33, 5, 5),
        (64, 160, 6),
        small(300, 17, 4),
        (700, 32, 4),
        (4096, 128, 8),
    ],
)
def test_routing(num_tokens: int, num_experts: int, num_chosen: int, is_normalised: bool) -> None:
    check_routing(3 * random(num_tokens, num_experts), RoutingRule(num_chosen, is_normalised))


@pytest.mark.parametrize(
    ("num_tokens", "is_sigmoid", "is_normalised"),
    [small(3, True, True), small(600, True, False), (3, False, True), (600, False, False)],
)
def test_routing_with_biases_for_the_choice(
    num_tokens: int, is_sigmoid: bool, is_normalised: bool
) -> None:
    rule = RoutingRule(4, is_normalised, is_sigmoid, scale=2.5)
    check_routing(random(num_tokens, 17), rule, 0.3 * random(17))
    check_routing(random(num_tokens, 17), rule)


@pytest.mark.parametrize(
    ("num_tokens", "num_experts", "num_groups", "num_kept"),
    [small(3, 20, 5, 2), small(700, 20, 4, 3), (40, 256, 8, 4), (4096, 256, 8, 4)],
)
def test_routing_to_experts_of_the_best_groups(
    num_tokens: int, num_experts: int, num_groups: int, num_kept: int
) -> None:
    groups = dict(num_groups=num_groups, num_kept_groups=num_kept)
    logits, bias = random(num_tokens, num_experts), 0.3 * random(num_experts)
    for is_sigmoid in (True, False):
        rule = RoutingRule(4, is_sigmoid, is_sigmoid, **groups)
        check_routing(logits, rule, bias if is_sigmoid else None)


@pytest.mark.small
@pytest.mark.parametrize("held", [range(0, 6), range(6, 17), range(16, 17)], ids=str)
@pytest.mark.parametrize("num_tokens", [1, 40, 600])
def test_routing_to_some_of_the_experts(num_tokens: int, held: range) -> None:
    check_routing(3 * random(num_tokens, 17), RoutingRule(4), held=held, factors=random(17))


@pytest.mark.small
@pytest.mark.parametrize("num_tokens", [3, 70])
@pytest.mark.parametrize("form", ["plain", "int4"])
def test_products_of_some_of_the_experts_add_up_to_those_of_all(num_tokens: int, form: str) -> None:
    gate_up = FORMS[form](4, 128, 64, torch.float32)
    down = FORMS[form](4, 64, 64, torch.float32)
    logits, x = random(num_tokens, 8), random(num_tokens, 64)
    for held in (range(0, 4), range(4, 8)):
        routing = twins.route(logits, RoutingRule(3), held=held)
        there = kernels.route(to_device(logits), RoutingRule(3), held=held)
        expected = twins.expert_parts(twins.gated_experts(x, gate_up, routing), down, routing)
        inner = kernels.gated_experts(to_device(x), to_device(gate_up), there)
        close(kernels.expert_parts(inner, to_device(down), there), expected)


@pytest.mark.small
def test_all_tokens_go_to_the_same_experts() -> None:
    check_routing(random(1, 20).expand(300, 20).contiguous(), RoutingRule(3))
    check_routing(random(1, 8).expand(40, 8).contiguous(), RoutingRule(3))


@pytest.mark.small
@pytest.mark.parametrize("num_tokens", [6, 300])
def test_a_token_that_is_nan_spoils_itself_alone(num_tokens: int) -> None:
    logits = random(num_tokens, 18)
    logits[2], logits[3, 5] = math.nan, math.nan
    found = kernels.route(to_device(logits), RoutingRule(3))
    assert sorted(pair for _, pair in pairs_of(found)) == list(range(3 * num_tokens))
    assert found.weights[2].isnan().all() and found.weights[4:].isfinite().all()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    ("shape", "form"), crossed(SHAPES, FORMS, where=lambda shape, form: shape in SMALL)
)
def test_products(shape: tuple[int, int, int, int, int], form: str, dtype: torch.dtype) -> None:
    num_tokens, num_experts, num_chosen, hidden_size, inner_size = shape
    make, limits = FORMS[form], LIMITS if form == "mxfp4" else None
    gate_up = make(num_experts, 2 * inner_size, hidden_size, dtype)
    down = make(num_experts, hidden_size, inner_size, dtype)
    logits, x = random(num_tokens, num_experts), random(num_tokens, hidden_size).to(dtype)
    routing = twins.route(logits, RoutingRule(num_chosen))
    there = kernels.route(to_device(logits), RoutingRule(num_chosen))
    inner = twins.gated_experts(x, gate_up, routing, limits)
    found = kernels.gated_experts(to_device(x), to_device(gate_up), there, limits)
    close(found, inner)
    expected = twins.expert_parts(inner, down, routing)
    close(kernels.expert_parts(to_device(inner), to_device(down), there), expected)


@pytest.mark.small
@pytest.mark.parametrize("num_tokens", [3, 70])
def test_gelu(num_tokens: int) -> None:
    matrices, x = plain(4, 2 * 64, 96, torch.float32), 3 * random(num_tokens, 96)
    logits = random(num_tokens, 4)
    routing = twins.route(logits, RoutingRule(2))
    there = kernels.route(to_device(logits), RoutingRule(2))
    found = kernels.gated_experts(to_device(x), to_device(matrices), there, GELU_TANH)
    close(found, twins.gated_experts(x, matrices, routing, GELU_TANH))


def close(found: Tensor, expected: Tensor) -> None:
    tolerance = TOLERANCE[expected.dtype]
    atol = tolerance * float(expected.float().abs().max())
    torch.testing.assert_close(
        found.float().cpu(), expected.float(), rtol=tolerance, atol=atol, equal_nan=True
    )


@pytest.mark.skipif(IS_INTERPRETED, reason="graphs are CUDA's")
@pytest.mark.parametrize("num_tokens", [1, 4, 40, 500])
def test_a_graph_routes_what_it_finds_and_gives_the_same_in_every_run(num_tokens: int) -> None:
    gate_up = to_device(plain(64, 512, 256, torch.bfloat16))
    down = to_device(plain(64, 256, 256, torch.bfloat16))
    logits, x = to_device(random(num_tokens, 64)), to_device(random(num_tokens, 256).bfloat16())

    def call() -> Tensor:
        routing = kernels.route(logits, RoutingRule(8))
        return kernels.expert_parts(kernels.gated_experts(x, gate_up, routing), down, routing)

    graph, output = captured(call)
    for _ in range(3):
        logits.copy_(torch.randn_like(logits))
        expected = call().clone()
        for _ in range(3):
            graph.replay()
            assert torch.equal(output, expected)
