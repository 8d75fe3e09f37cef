"""The native operations for a CPU against their twins; those of attention and of masks are in
test_kernels_attention and test_kernels_masks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from specguide import kernels
from specguide.kernels import cpu, pointwise
from specguide.kernels.rotary_layout import HALVES, RotaryLayout

CPU = torch.device("cpu")
NATIVE = [
    "add_rms_norm",
    "masked_argmax",
    "masked_sample",
    "norm_into",
    "rms_norm",
    "rope_and_store",
]


@pytest.fixture(autouse=True)
def without_gradients() -> Iterator[None]:
    torch.manual_seed(0)
    with torch.inference_mode():
        yield


@pytest.fixture
def no_twins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forbid the twins: what is called here is native."""
    for name in NATIVE:
        room = cpu.reference if name.startswith("masked") else cpu.pointwise
        monkeypatch.setattr(room, name, None)


@pytest.mark.parametrize("name", NATIVE)
def test_a_cpu_has_its_own(name: str) -> None:
    assert getattr(kernels, name).implementations[CPU] is getattr(cpu, name)


@pytest.mark.parametrize(
    ("shape", "weight"), [((5, 33), (33,)), ((4, 3, 16), (3, 16)), ((7,), (7,))]
)
def test_norm(shape: tuple[int, ...], weight: tuple[int, ...], request) -> None:
    x, scale = torch.randn(shape), torch.randn(weight)
    expected = pointwise.rms_norm(x, scale, 1e-5)
    request.getfixturevalue("no_twins")
    torch.testing.assert_close(cpu.rms_norm(x, scale, 1e-5), expected)


@pytest.mark.parametrize("row_ids", [None, torch.tensor([3, 0, 3])])
def test_norm_into_rows_that_are_apart(row_ids: Tensor | None, request) -> None:
    x, weight, num_rows = torch.randn(4, 24), torch.randn(24), 4 if row_ids is None else 3
    outputs = [torch.zeros(num_rows, 60) for _ in range(2)]
    pointwise.norm_into(outputs[0][:, 24:48], x, weight, 1e-5, row_ids)
    request.getfixturevalue("no_twins")
    cpu.norm_into(outputs[1][:, 24:48], x, weight, 1e-5, row_ids)
    torch.testing.assert_close(outputs[1], outputs[0])


def test_norm_of_a_sum(request) -> None:
    residual, parts, weight = torch.randn(6, 40), torch.randn(1, 6, 40), torch.randn(40)
    expected = pointwise.add_rms_norm(residual, parts, weight, 1e-6)
    request.getfixturevalue("no_twins")
    torch.testing.assert_close(cpu.add_rms_norm(residual, parts, weight, 1e-6), expected)


def heads(num_tokens: int) -> tuple[Tensor, Tensor]:
    """Heads of 4 queries and 2 keys, and of 2 values, as one product has them, in one part."""
    product = torch.randn(1, num_tokens, 8, 16)
    query_key, value = product.split((6, 2), 2)
    return query_key, value


@pytest.mark.parametrize("parts", [True, False])
def test_heads_turn_and_are_stored(parts: bool, request) -> None:
    query_key, value = heads(5)
    if not parts:
        query_key, value = query_key[0], value[0]
    rotary, slots = torch.randn(5, 2, 1, 16), torch.tensor([3, -1, 0, 11, 7])
    caches = [[torch.zeros(3, 4, 2, 16) for _ in range(2)] for _ in range(2)]
    expected = pointwise.rope_and_store(query_key, value, rotary, *caches[0], slots)
    request.getfixturevalue("no_twins")
    found = cpu.rope_and_store(query_key, value, rotary, *caches[1], slots)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(caches[1], caches[0])


def test_what_is_not_for_them_goes_to_the_twin() -> None:
    """Other types, other layouts, much, and where gradients are wanted."""
    half, weight = torch.randn(2, 8).bfloat16(), torch.randn(8)
    expected = pointwise.rms_norm(half, weight.bfloat16(), 1e-5)
    assert torch.equal(cpu.rms_norm(half, weight.bfloat16(), 1e-5), expected)
    parts = torch.randn(3, 2, 8)
    torch.testing.assert_close(
        cpu.add_rms_norm(weight.expand(2, 8).clone(), parts, weight, 1e-5),
        pointwise.add_rms_norm(weight.expand(2, 8).clone(), parts, weight, 1e-5),
    )
    many = torch.randn(600, 512)
    assert torch.equal(cpu.rms_norm(many, many[0], 1e-5), pointwise.rms_norm(many, many[0], 1e-5))
    ropes = pointwise.rope_and_store, cpu.rope_and_store
    for layout in (HALVES, RotaryLayout(is_interleaved=True), RotaryLayout(num_rotated=8)):
        for dtype in (torch.float32, torch.bfloat16):
            (query_key, value), rotary = heads(3), torch.randn(3, 2, 1, 16)
            caches = [[torch.zeros(3, 4, 2, 16, dtype=dtype) for _ in range(2)] for _ in range(2)]
            slots = torch.tensor([1, 2, 9])
            outputs = [
                rope(query_key, value, rotary, *some, slots, layout=layout)
                for rope, some in zip(ropes, caches, strict=True)
            ]
            torch.testing.assert_close(outputs[1], outputs[0])
            torch.testing.assert_close(caches[1], caches[0])


def test_gradients_are_kept() -> None:
    with torch.inference_mode(False):
        x = torch.randn(2, 8, requires_grad=True)
        cpu.rms_norm(x, torch.ones(8), 1e-5).sum().backward()
        assert x.grad is not None
