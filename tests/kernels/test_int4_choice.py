"""Which kernel and which tiles products with weights of 4 bits take."""

from __future__ import annotations

import sys
from contextvars import ContextVar
from functools import partial

import pytest
import torch
from int4_case import case
from torch import Tensor

pytest.importorskip("triton")

from specguide.kernels import Int4Matrix
from specguide.kernels.triton import hopper, int4, int4_hopper

DEVICE = torch.device("cuda", 0)
ROWS = 64


@pytest.fixture(autouse=True)
def on_hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all tensors taken for some on a Hopper GPU that can run the kernel."""
    monkeypatch.setattr(hopper, "runs_on", lambda device, kernels: True)
    for room in (int4, int4_hopper):
        monkeypatch.setattr(room, "num_multiprocessors", lambda device: 132)


def inputs(
    shape: tuple[int, int], group_size: int, rows: int, *, has_zeros: bool
) -> tuple[Tensor, Int4Matrix]:
    matrix = Int4Matrix.empty(
        shape, group_size, torch.float16, torch.device("meta"), has_zeros=has_zeros
    )
    x = torch.empty(rows, shape[1], dtype=torch.bfloat16, device="meta")
    return x, matrix


def splits(
    shape: tuple[int, int],
    group_size: int = 128,
    *,
    has_zeros: bool = False,
    rows: int = ROWS,
    is_gated: bool = False,
    may_split: bool = False,
) -> int | None:
    """shape: output and input features"""
    x, matrix = inputs(shape, group_size, rows, has_zeros=has_zeros)
    return int4.hopper_splits(x, matrix, is_gated=is_gated, may_split=may_split)


def test_products_of_a_layer_take_it() -> None:
    assert splits((6144, 4096), may_split=True) == 2
    assert splits((4096, 4096), may_split=True) == 4
    assert splits((4096, 14336), may_split=True) == 4
    assert splits((28672, 4096), is_gated=True) == 1
    assert splits((28672, 4096), is_gated=True, rows=33) == 1


@pytest.mark.parametrize(
    ("rows", "shape", "sizes"),
    [
        (65, (28672, 4096), (128, 256, 1)),
        (128, (4096, 14336), (128, 128, 4)),
        (192, (6144, 4096), (128, 128, 1)),
        (256, (4096, 4096), (128, 128, 2)),
        (512, (6144, 4096), (128, 256, 1)),
        (2048, (4096, 14336), (128, 256, 1)),
        (2048, (6144 - 128, 4096), (128, 128, 1)),
    ],
)
def test_products_of_many_rows_take_it(
    rows: int, shape: tuple[int, int], sizes: tuple[int, ...]
) -> None:
    """sizes: rows and features of a program, and the splits"""
    tile = int4_hopper.choose_tile(*inputs(shape, 128, rows, has_zeros=False), is_gated=False)
    found = splits(shape, rows=rows, may_split=True)
    assert (tile.rows, tile.num_outputs, found) == sizes


def test_what_it_cannot_multiply_or_not_faster_it_does_not() -> None:
    gated = (28672, 4096)
    assert splits(gated, is_gated=True, has_zeros=True) is None
    assert splits(gated, 32, is_gated=True) is None
    assert splits(gated, is_gated=True, rows=32) is None
    assert splits(gated, is_gated=True, rows=65) is None
    assert splits(gated, rows=2049) is None
    assert splits((28672 - 128, 4096), is_gated=True) is None
    assert splits((28672, 4095), is_gated=True) is None
    assert splits((4096, 4096), is_gated=True) is None
    assert splits((4096, 4096)) is None


def test_other_devices_and_tritons_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    runs_on = partial(hopper.runs_on.__wrapped__, kernels="int4_hopper_kernels")
    assert not runs_on(torch.device("cpu"))
    capability = [(8, 0)]
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability[0])
    assert not runs_on(DEVICE)
    capability[0] = (9, 0)
    monkeypatch.setitem(sys.modules, "specguide.kernels.triton.int4_hopper_kernels", None)
    assert not runs_on(DEVICE)


def test_only_what_was_compiled_once_is_compiled_on_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The mode that compiles on threads is a variable of the context."""
    is_on_threads = ContextVar("is_on_threads", default=False)
    seen = []

    def compile_it(x: Tensor, *args: object, **options: object) -> Tensor:
        seen.append(is_on_threads.get())
        return x[None]

    monkeypatch.setattr(int4_hopper, "launch", compile_it)
    monkeypatch.setattr(int4_hopper, "_attempts", hopper.Attempts("weights of 4 bits"))
    x, matrix, _ = case((ROWS, 24576, 512, 128), torch.bfloat16, has_zeros=False)
    reset = is_on_threads.set(True)
    for operation in (int4.int4_linear, int4.int4_linear, int4.int4_gated_linear):
        assert torch.equal(operation(x, matrix), x)
    is_on_threads.reset(reset)
    assert seen == [False, True, False]


def test_a_compiler_that_refuses_it_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def refuse(*args: object, **options: object) -> Tensor:
        calls.append(args)
        raise RuntimeError("no such layout")

    monkeypatch.setattr(int4_hopper, "launch", refuse)
    monkeypatch.setattr(int4_hopper, "_attempts", hopper.Attempts("weights of 4 bits"))
    monkeypatch.setattr(int4, "launch", lambda x, *args, **options: x[None])
    x, matrix, _ = case((ROWS, 24576, 512, 128), torch.bfloat16, has_zeros=False)
    with pytest.warns(UserWarning, match="no such layout"):
        assert torch.equal(int4.int4_linear(x, matrix), x)
    assert torch.equal(int4.int4_linear(x, matrix), x)
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        ((6144, 4096), (8, 32, 2, 2)),
        ((4096, 4096), (16, 64, 4, 4)),
        ((4096, 14336), (16, 64, 4, 4)),
    ],
)
def test_few_rows_have_programs_enough(shape: tuple[int, int], sizes: tuple[int, ...]) -> None:
    """sizes: rows, features, splits and warps"""
    tile = int4.choose_tile(*inputs(shape, 128, 4, has_zeros=False), may_split=True)
    assert (tile.rows, tile.block_out, tile.num_splits, tile.num_warps) == sizes
