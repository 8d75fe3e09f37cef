"""Owns the layers of experts that the kernel benchmark times: shapes of published models, random
weights."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from benchmarks.gpu.timing import DEVICE, Call
from specguide import kernels
from specguide.kernels import experts as twins
from specguide.kernels.experts import AnyExperts, ExpertMatrices, GateLimits, RoutingRule
from specguide.kernels.experts_float8 import expert_parts_float8, gated_experts_float8
from specguide.kernels.float8 import Float8Rows, to_float8
from specguide.layers.experts import Experts, ExpertsLayout, ExpertsShape, SeparateExperts
from specguide.layers.placement import Placement
from specguide.layers.quantization import UNQUANTIZED, ExpertWeights, Quantization
from specguide.layers.quantization.float8_blocks import Float8Blocks
from specguide.layers.quantization.mxfp4 import Mxfp4
from specguide.layers.quantization.pack_quantized import PackQuantized
from specguide.models.gpt_oss import StackedExperts


@dataclass(frozen=True)
class ExpertsCase:
    """A layer of a published model."""

    hidden_size: int
    shape: ExpertsShape
    quantization: Quantization
    layout: ExpertsLayout


_QWEN3 = ExpertsCase(2048, ExpertsShape(128, 768, RoutingRule(8)), UNQUANTIZED, SeparateExperts())
_GPT_OSS = ExpertsShape(32, 2880, RoutingRule(4), has_bias=True, limits=GateLimits(1.702, 7.0))
_GLM = ExpertsShape(
    128,
    1408,
    RoutingRule(8, is_sigmoid=True),
    choice_bias="gate.e_score_correction_bias",
)

EXPERTS = {
    "Qwen3-30B-A3B, bfloat16": _QWEN3,
    "Qwen3-30B-A3B, fp8 in blocks": replace(_QWEN3, quantization=Float8Blocks("weight_scale_inv")),
    "Qwen3-30B-A3B, int4": replace(_QWEN3, quantization=PackQuantized(128, has_zeros=False)),
    "GLM-4.5-Air, bfloat16": ExpertsCase(4096, _GLM, UNQUANTIZED, SeparateExperts()),
    "gpt-oss 20B, mxfp4": ExpertsCase(2880, _GPT_OSS, Mxfp4(), StackedExperts()),
}


def random_layer(case: ExpertsCase) -> Experts:
    """The layer with random weights; memory as it comes would take as long, but hold NaN."""
    place = Placement(DEVICE, torch.bfloat16, case.quantization)
    layer = Experts.create(place, case.hidden_size, case.shape, case.layout)
    for destination in layer.destinations().values():
        _fill(destination.tensor)
    return layer


def experts(case: ExpertsCase, num_tokens: int) -> tuple[Call, int]:
    """The layer, from its router on, with its input as a norm before it writes it; bytes are those
    of the experts in use."""
    layer = random_layer(case)
    x = _inputs(case, num_tokens)
    given = layer.both_forms(x)
    routing = twins.route(layer.router.logits(x), case.shape.rule, layer.router.choice_bias)
    assert routing.experts is not None
    share = len(routing.experts.unique()) / case.shape.num_experts
    num_bytes = sum(destination.tensor.nbytes for destination in layer.stored.values())
    return lambda: layer(given), round(num_bytes * share)


def check_experts() -> None:
    """Exits where a layer does not give what its twins give, which compute on the GPU, too."""
    for case in EXPERTS.values():
        layer = random_layer(case)
        for num_tokens in (3, 200):
            x = _inputs(case, num_tokens)
            found, expected = _by_kernels(layer, x), _by_twins(layer, x)
            tolerance = 2e-2 * float(expected.abs().max())
            torch.testing.assert_close(found, expected, rtol=2e-2, atol=tolerance)


def _by_kernels(layer: Experts, x: Tensor) -> Tensor:
    routing = kernels.route(_logits(layer, x), layer.shape.rule)
    inner = layer.gate_up.gated(x, routing, layer.shape.limits, layer.down.input_format)
    return layer.down.weighted(inner, routing).float().sum(0)


def _by_twins(layer: Experts, x: Tensor) -> Tensor:
    routing, limits = twins.route(_logits(layer, x), layer.shape.rule), layer.shape.limits
    gate_up, down = _matrices(layer.gate_up), _matrices(layer.down)
    wanted = layer.gate_up.input_format
    scaling = None if wanted is None else wanted.rounding
    if scaling is None:
        inner = twins.gated_experts(x, gate_up, routing, limits)
        return twins.expert_parts(inner, down, routing).float().sum(0)
    assert isinstance(gate_up, ExpertMatrices) and isinstance(down, ExpertMatrices)
    rows = gated_experts_float8(to_float8(x, scaling), gate_up, routing, limits, scaling, x.dtype)
    assert isinstance(rows, Float8Rows)
    return expert_parts_float8(rows, down, routing, x.dtype).float().sum(0)


def _logits(layer: Experts, x: Tensor) -> Tensor:
    """Logits of the router, no two alike: with equal ones nothing would say which is higher."""
    logits = layer.router.logits(x).float()
    return logits + 1e-3 * torch.linspace(0, 1, logits.shape[1], device=logits.device)


def _matrices(weights: ExpertWeights) -> AnyExperts:
    assert weights.matrices is not None
    return weights.matrices


def _inputs(case: ExpertsCase, num_tokens: int) -> Tensor:
    return torch.randn(num_tokens, case.hidden_size, device=DEVICE, dtype=torch.bfloat16)


def _fill(tensor: Tensor) -> None:
    if tensor.dtype == torch.uint8:  # codes, or exponents of small numbers
        tensor.random_(115, 122)
    elif tensor.dtype == torch.int16:  # four numbers each
        tensor.random_(-(2**15), 2**15)
    elif tensor.dtype == torch.float8_e4m3fn:
        tensor.copy_(torch.randn(tensor.shape, device=tensor.device))
    else:
        tensor.normal_(std=0.02)
