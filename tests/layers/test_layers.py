"""Projections, norms and feed-forward layers beside what they stand for, written out."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.models.gemma3.modeling_gemma3 import Gemma3RMSNorm

from specguide.kernels import ProductScales
from specguide.kernels.experts import RoutingRule
from specguide.layers.destination import HasDestinations
from specguide.layers.experts import Experts, ExpertsShape, SeparateExperts, SharedExperts
from specguide.layers.feed_forward import GatedMlp
from specguide.layers.lm_head import Embedding, LmHead
from specguide.layers.norm import NormKind, RmsNorm
from specguide.layers.partial_sums import PartialSums
from specguide.layers.placement import Placement
from specguide.layers.projection import Projection
from specguide.layers.quantization import Activation, Quantization
from specguide.layers.quantization.float8_formats import ONLINE, read_fp8

PLACE = Placement(torch.device("cpu"), torch.float32).within("here")


def filled(part: HasDestinations, seed: int = 0) -> dict[str, Tensor]:
    """Random tensors of a checkpoint, which the part holds from now on."""
    generator = torch.Generator().manual_seed(seed)
    stored = {}
    for name, destination in part.destinations().items():
        stored[name] = torch.randn(destination.shape, generator=generator)
        destination.fill(stored[name])
    return stored


def test_maps_of_the_same_input_are_one_product() -> None:
    projection = Projection.create(PLACE, 6, {"a": 4, "b": 2}, bias=True)
    stored = filled(projection)
    assert list(stored) == ["here.a.weight", "here.a.bias", "here.b.weight", "here.b.bias"]
    x = torch.randn(3, 6)
    each = [
        F.linear(x, stored[f"here.{name}.weight"], stored[f"here.{name}.bias"]) for name in "ab"
    ]
    expected = torch.cat(each, dim=-1)
    torch.testing.assert_close(projection.forward(x), expected)
    torch.testing.assert_close(projection.forward_parts(x).total(x.dtype), expected)


@pytest.mark.parametrize("activation", ["silu", "gelu_tanh"])
def test_gated_mlp(activation: Activation) -> None:
    mlp = GatedMlp.create(PLACE, 6, 8, activation=activation)
    gate, up, down = filled(mlp).values()
    x = torch.randn(3, 6)
    act = F.silu if activation == "silu" else lambda it: F.gelu(it, approximate="tanh")
    expected = (act(x @ gate.T) * (x @ up.T)) @ down.T
    torch.testing.assert_close(mlp(x).total(x.dtype), expected)


@pytest.mark.parametrize("is_normalised", [False, True])
def test_a_token_takes_the_experts_that_the_router_scores_highest(is_normalised: bool) -> None:
    shape = ExpertsShape(5, 3, RoutingRule(2, is_normalised))
    layer = Experts.create(PLACE, 6, shape, SeparateExperts())
    stored = filled(layer)
    x = torch.randn(7, 6)
    found = layer(x).total(x.dtype)
    for token, output in zip(x, found, strict=True):
        likely = (token @ stored["here.gate.weight"].T).softmax(-1)
        chosen = likely.argsort(descending=True)[:2].tolist()
        expected = torch.zeros(6)
        for expert in chosen:
            gate, up, down = (
                stored[f"here.experts.{expert}.{name}_proj.weight"]
                for name in ("gate", "up", "down")
            )
            weight = likely[expert] / (likely[chosen].sum() if is_normalised else 1)
            expected += weight * ((F.silu(token @ gate.T) * (token @ up.T)) @ down.T)
        torch.testing.assert_close(output, expected)


BLOCKS = read_fp8({"weight_block_size": [128, 128]})


@pytest.mark.parametrize("quantization", [ONLINE, BLOCKS], ids=["rows", "blocks"])
def test_the_norm_before_experts_in_float8_rounds_for_all_of_them(
    quantization: Quantization,
) -> None:
    """The router reads what is not rounded."""
    place = Placement(torch.device("cpu"), torch.float32, quantization).within("mlp")
    shape = ExpertsShape(4, 128, RoutingRule(2))
    mlp = GatedMlp.create(place.within("shared"), 256, 128)
    layer = SharedExperts(Experts.create(place, 256, shape, SeparateExperts()), mlp)
    filled(layer)
    norm = RmsNorm(torch.rand(256), 1e-6, output=layer.input_format)
    x = torch.randn(3, 256)
    total, both = norm.add(x, PartialSums.of(x))
    plain = RmsNorm(norm.weight, 1e-6)(2 * x)
    assert torch.equal(total, 2 * x) and torch.equal(both.plain, plain)
    assert mlp.input_format is not None and both.of(mlp.input_format) is both.wanted
    for given in (both, norm(2 * x)):
        assert torch.equal(layer(given).parts, layer(plain).parts)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_norm_with_an_offset_keeps_its_digits(dtype: torch.dtype) -> None:
    """Gemma's checkpoints hold how far a weight is from 1; 1 + w has fewer digits in bfloat16."""
    place = Placement(torch.device("cpu"), dtype)
    norm = RmsNorm.create(place, "norm", 64, NormKind(1e-6, weight_offset=1))
    slow = Gemma3RMSNorm(64).to(dtype)
    slow.weight.data = (torch.randn(64) * 0.1).to(dtype)
    norm.destinations()["norm.weight"].fill(slow.weight.data)
    x, product = torch.randn(2, 5, 64).to(dtype)
    torch.testing.assert_close(norm(x), slow(x))
    total, normed = norm.add(x, PartialSums.of(product))
    assert torch.equal(total, x + product)
    torch.testing.assert_close(normed, slow(x + product))


def test_who_adds_a_product_sums_and_scales_it() -> None:
    norm = RmsNorm(torch.rand(64), 1e-6)
    x, *parts = torch.randn(3, 5, 64)
    scales = ProductScales(torch.rand(5, 1), torch.rand(64))
    product = sum(parts) * scales.rows * scales.columns
    sums = PartialSums(torch.stack(parts), scales)
    total, normed = norm.add(x, sums)
    torch.testing.assert_close(total, x + product)
    torch.testing.assert_close(normed, norm(x + product))
    torch.testing.assert_close(sums.total(x.dtype), product)
    torch.testing.assert_close(sums.parts.sum(0), product)


def test_tied_output_matrix_is_the_embeddings_without_their_scale() -> None:
    embedding = Embedding.create(PLACE, 9, 4, is_tied=True, scale=3.0)
    lm_head = LmHead.tied(embedding)
    (matrix,) = filled(embedding).values()
    assert torch.equal(embedding.forward(torch.tensor([2, 0])), 3 * matrix[[2, 0]])
    x = torch.randn(2, 4)
    torch.testing.assert_close(lm_head.forward(x), x @ matrix.T)
    assert lm_head.destinations() == {}


def test_vocabulary_can_be_made_to_fit() -> None:
    embedding = Embedding.create(PLACE, 9, 4, is_tied=True)
    lm_head = LmHead.tied(embedding)
    (matrix,) = filled(embedding).values()
    for part in (embedding, lm_head):
        part.fit_vocabulary(11)
    assert torch.equal(embedding.forward(torch.tensor([10])), matrix[8:])
    assert lm_head.forward(torch.randn(2, 4)).shape == (2, 9)
    for part in (embedding, lm_head):
        part.fit_vocabulary(7)
    assert lm_head.forward(torch.randn(2, 4)).shape == (2, 7)
