"""Triton products with weights of 4 bits against their plain-torch twins on a CPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from gpu_case import IS_INTERPRETED, assert_near, check_replays, to_device
from int4_case import case
from small_cases import crossed, small
from torch import Tensor

from specguide.kernels import (
    int4,
    int4_gated_linear,
    int4_linear,
    int4_linear_parts,
    triton,
)

pytestmark = pytest.mark.gpu

TOLERANCE = {torch.bfloat16: 3e-2, torch.float16: 4e-3, torch.float32: 1e-5}
if IS_INTERPRETED:
    del TOLERANCE[torch.bfloat16]  # the interpreter knows no products of it
SHAPES = [
    (1, 64, 512, 128),
    (4, 72, 1024, 128),
    (3, 72, 192, 64),
    (5, 40, 160, 32),
    (2, 64, 576, 640),
    (20, 72, 1024, 128),
    (16, 1000, 640, 128),
    (33, 512, 4096, 256),
    (64, 96, 2048, 128),
    (100, 320, 1024, 128),
    (600, 320, 1024, 128),
]
"""Rows, output features, input features and the group size."""
SMALL = SHAPES[1:6]


def assert_close(found: Tensor, expected: Tensor) -> None:
    assert_near(found.to(expected.dtype), expected, TOLERANCE[expected.dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    ("shape", "has_zeros"),
    crossed(
        SHAPES,
        [False, True],
        where=lambda shape, has_zeros: shape in SMALL and has_zeros == (shape in SHAPES[1:6:2]),
    ),
)
def test_products(shape: tuple[int, int, int, int], dtype: torch.dtype, has_zeros: bool) -> None:
    x, matrix, bias = case(shape, dtype, has_zeros)
    on_cpu = (x, matrix, bias if has_zeros else None)
    on_gpu = tuple(map(to_device, on_cpu))
    assert_close(int4_linear(*on_gpu), int4.int4_linear(*on_cpu))
    assert_close(int4_linear_parts(*on_gpu).float().sum(0), int4.int4_linear(*on_cpu))
    assert_close(int4_gated_linear(*on_gpu), int4.int4_gated_linear(*on_cpu))


@pytest.mark.parametrize("has_zeros", [small(False), small(True)])
@pytest.mark.parametrize("is_folded", [small(False), small(True)])
def test_tiles_cover_every_shape(is_folded: bool, has_zeros: bool) -> None:
    """There are more splits than the choice takes, and programs of all sizes."""
    dtype = torch.float16 if IS_INTERPRETED else torch.bfloat16
    x, matrix, _ = case((20, 72, 1024, 128), dtype, has_zeros)
    expected = int4.int4_linear(x, matrix)
    on_gpu = to_device(x), to_device(matrix)
    for sizes in (
        (8, 32, 2, 2, 3, 128),
        (16, 32, 1, 2, 3, 128),
        (32, 64, 2, 4, 2, 64),
        (64, 128, 1, 8, 4, 32),
    ):
        tile = triton.int4.Int4Tile(*sizes, is_folded)
        found = triton.int4.launch(*on_gpu, None, tile)
        assert_close(found.float().sum(0), expected)
        for is_paired in (False, True):
            whole = replace(tile, num_splits=1, is_paired=is_paired)
            found = triton.int4.launch(*on_gpu, None, whole, is_gated=True)
            assert_close(found[0], int4.int4_gated_linear(x, matrix))


@pytest.mark.small
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_patterns_are_numbers_in_units(dtype: torch.dtype) -> None:
    """What a GPU makes of a plane: the number's bits in a float, times a factor, less a base."""
    form = triton.int4_planes.FORMS[dtype]
    numbers = torch.arange(16, dtype=torch.int16)
    for plane, (factor, base) in enumerate(zip(form.factors, form.bases, strict=True)):
        magic = 0 if base == 0 else 0x6400
        pattern = (numbers << 4 * (plane % 2) | magic).view(dtype).double()
        assert torch.equal(pattern * factor - base, numbers.double() * form.unit)


@pytest.mark.small
def test_rows_and_columns_of_a_matrix_are_views() -> None:
    x, matrix, _ = case((4, 96, 1024, 64), torch.float16, True)
    on_gpu = to_device(x), to_device(matrix)
    rows = matrix.rows(16, 80)
    assert_close(int4_linear(on_gpu[0], on_gpu[1].rows(16, 80)), int4.int4_linear(x, rows))
    whole = matrix.dequantized(torch.float32)
    columns = matrix.columns(256, 768)
    assert columns.words.data_ptr() == matrix.words[1:].data_ptr()
    assert torch.equal(columns.dequantized(torch.float32), whole[:, 256:768])
    found = int4_linear(on_gpu[0][:, 256:768], on_gpu[1].columns(256, 768))
    assert_close(found, int4.int4_linear(x[:, 256:768], columns))


@pytest.mark.small
def test_many_rows_are_multiplied_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton.int4, "_MOST_FLOAT_BYTES", 4 * 192 * 50)
    x, matrix, bias = case((520, 112, 192, 64), torch.float32, True)
    found = int4_linear(*map(to_device, (x, matrix, bias)))
    assert_close(found, int4.int4_linear(x, matrix, bias))


@pytest.mark.skipif(IS_INTERPRETED, reason="graphs are CUDA's")
def test_a_captured_chain() -> None:
    """Each kernel reads what the one before it wrote, though it takes its place before that has
    ended."""
    x, matrix, _ = case((4, 4096, 4096, 128), torch.bfloat16, True)
    live, weight = to_device(x), to_device(replace(matrix, scales=matrix.scales * 0.3))

    def chain() -> Tensor:
        value = live
        for _ in range(20):
            value = int4_linear_parts(value, weight).sum(0).to(value.dtype)
            value = int4_linear(value, weight)
        return value

    check_replays(chain)
