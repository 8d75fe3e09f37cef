"""Which kernel and which tiles products of few rows take."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

pytest.importorskip("triton")

from specguide.kernels import Float8Scaling, float8
from specguide.kernels.triton import hopper, linear, linear_float8, linear_hopper
from specguide.kernels.triton.linear_hopper import Tile, choose_tile, takes

QKV, OUT, GATED, DOWN = (6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336)
"""Output and input features of Llama-3.1-8B's."""


@pytest.fixture(autouse=True)
def on_hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all tensors taken for some on a Hopper GPU that can run the kernel."""
    monkeypatch.setattr(hopper, "runs_on", lambda device, kernels: True)
    monkeypatch.setattr(linear_hopper, "num_multiprocessors", lambda device: 132)


def inputs(
    shape: tuple[int, int], rows: int, dtype: torch.dtype = torch.bfloat16
) -> tuple[Tensor, Tensor]:
    weight = torch.empty(shape, dtype=dtype, device="meta")
    return torch.empty(rows, shape[1], dtype=dtype, device="meta"), weight


def tile(shape: tuple[int, int], rows: int, dtype: torch.dtype, *, is_gated: bool = False) -> Tile:
    return choose_tile(*inputs(shape, rows, dtype), is_gated=is_gated, may_split=not is_gated)


def test_tiles_of_a_layer() -> None:
    few, many = 3, 64
    assert tile(QKV, few, torch.bfloat16) == Tile(8, 2, 8)
    assert tile(OUT, few, torch.float8_e4m3fn) == Tile(8, 2, 8)
    assert tile(DOWN, few, torch.float8_e4m3fn) == Tile(8, 2, 24)
    assert tile(DOWN, many, torch.float8_e4m3fn) == Tile(64, 2, 13)
    assert tile(QKV, many, torch.float8_e4m3fn) == Tile(64, 2, 6)
    assert tile(GATED, few, torch.float8_e4m3fn, is_gated=True) == Tile(8, 1, 5)
    assert tile(GATED, many, torch.float8_e4m3fn, is_gated=True) == Tile(64, 1, 4)
    assert tile((64, 256), few, torch.bfloat16) == Tile(8, 4, 1)


def test_what_it_cannot_multiply_it_does_not_take() -> None:
    assert takes(*inputs(QKV, 64))
    assert not takes(*inputs(QKV, 65))
    assert not takes(*inputs(QKV, 4, torch.float32))
    assert not takes(*inputs((64, 96), 4))
    x, weight = inputs(QKV, 4)
    assert not takes(x.half(), weight)
    assert not takes(x[:, 1:4065], weight[:, 1:4065])
    assert takes(x[:, 8:4040], weight[:, 8:4040])


def test_where_it_does_not_compile_others_multiply(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def refuse(*args: object, **options: object) -> Tensor:
        calls.append(args)
        raise RuntimeError("no such layout")

    monkeypatch.setattr(linear_hopper, "launch", refuse)
    monkeypatch.setattr(linear_hopper, "_attempts", hopper.Attempts("products of few rows"))
    monkeypatch.setattr(linear, "choose_tile", _others)
    monkeypatch.setattr(linear_float8, "choose_tile", _others)
    x, weight = torch.randn(4, 256, dtype=torch.bfloat16), torch.randn(128, 256).bfloat16()
    with pytest.warns(UserWarning, match="no such layout"), pytest.raises(_Others):
        linear.linear_parts(x, weight)
    scale = torch.ones(128)
    rows = float8.to_float8(x, Float8Scaling())
    given = rows, weight.to(float8.FLOAT8), scale, None, torch.bfloat16
    with pytest.raises(_Others):
        linear_float8.linear_float8_parts(*given)
    assert len(calls) == 1


class _Others(Exception): ...


def _others(*args: object, **options: object) -> Tile:
    raise _Others


def test_gated_ones_of_float8_alone_take_it(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []

    def launch(x: Tensor, *args: object, **options: object) -> tuple[Tensor, Tensor]:
        taken.append(x.dtype)
        return torch.zeros(1, 4, 64, dtype=torch.bfloat16), torch.zeros(4, 1)

    monkeypatch.setattr(linear_hopper, "launch", launch)
    monkeypatch.setattr(linear_float8, "to_float8_by", lambda output, largest: output)
    monkeypatch.setattr(linear, "choose_tile", _others)
    x, weight = torch.randn(4, 256, dtype=torch.bfloat16), torch.randn(128, 256).bfloat16()
    rows = float8.to_float8(x, Float8Scaling())
    rounded = weight.to(float8.FLOAT8), torch.ones(128)
    linear_float8.gated_linear_float8(rows, *rounded, None, Float8Scaling(), torch.bfloat16)
    with pytest.raises(_Others):
        linear.gated_linear(x, weight)
    assert taken == [float8.FLOAT8]
