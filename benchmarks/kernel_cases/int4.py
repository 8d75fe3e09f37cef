"""Owns the products with weights of 4 bits that the kernel benchmark times: those of a layer of
Llama-3.1-8B."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from benchmarks.gpu.timing import DEVICE, Call
from benchmarks.kernel_cases.shapes import HIDDEN, INTERMEDIATE, QKV
from specguide import kernels
from specguide.kernels import Int4Matrix, int4

GROUP_SIZE = 128
ROWS = (4, 16, 32, 64, 128, 256, 512, 1024, 2048)


@dataclass(frozen=True)
class Product:
    """One of a layer's products, with weights of 4 bits and as it is in bf16.

    twin: the same in plain torch
    """

    num_outputs: int
    num_inputs: int
    int4: Callable[[Tensor, Int4Matrix], Tensor]
    twin: Callable[[Tensor, Int4Matrix], Tensor]
    bf16: Callable[[Tensor, Tensor], Tensor]


PRODUCTS = {
    "qkv": Product(QKV, HIDDEN, kernels.int4_linear, int4.int4_linear, kernels.linear),
    "out": Product(
        HIDDEN, HIDDEN, kernels.int4_linear_parts, int4.int4_linear_parts, kernels.linear_parts
    ),
    "gate, up": Product(
        2 * INTERMEDIATE,
        HIDDEN,
        kernels.int4_gated_linear,
        int4.int4_gated_linear,
        kernels.gated_linear,
    ),
    "down": Product(
        HIDDEN,
        INTERMEDIATE,
        kernels.int4_linear_parts,
        int4.int4_linear_parts,
        kernels.linear_parts,
    ),
}


def matrix_of(product: Product, *, has_zeros: bool) -> Int4Matrix:
    """Random weights of about the size of a model's."""
    matrix = Int4Matrix.empty(
        (product.num_outputs, product.num_inputs),
        GROUP_SIZE,
        torch.float16,
        DEVICE,
        has_zeros=has_zeros,
    )
    matrix.words.random_()
    matrix.scales.uniform_(0.5, 1.0).mul_(0.3 * product.num_inputs**-0.5)
    if matrix.zeros is not None:
        matrix.zeros.random_(0, 16)
    return matrix


def num_bytes(product: Product, matrix: Int4Matrix, num_rows: int) -> int:
    """Read and written once."""
    tensors = (matrix.words, matrix.scales, matrix.zeros)
    weights = sum(tensor.nbytes for tensor in tensors if tensor is not None)
    return weights + 2 * num_rows * (product.num_inputs + product.num_outputs)


def int4_product(product: Product, num_rows: int, *, has_zeros: bool) -> tuple[Call, int]:
    matrix = matrix_of(product, has_zeros=has_zeros)
    x = torch.randn(num_rows, product.num_inputs, device=DEVICE, dtype=torch.bfloat16)
    return partial(product.int4, x, matrix), num_bytes(product, matrix, num_rows)


def bf16_product(product: Product, num_rows: int) -> tuple[Call, int]:
    x, weight = (
        torch.randn(size, product.num_inputs, device=DEVICE, dtype=torch.bfloat16)
        for size in (num_rows, product.num_outputs)
    )
    return partial(product.bf16, x, weight), weight.nbytes + x.nbytes


CHECKED = ((4, True), (16, False), (48, True), (48, False), (512, False), (600, True))
"""Rows, and whether there are zeros: on both sides of each change of kernel."""


def check() -> None:
    """Compares each product with its plain-torch twin."""
    for product in PRODUCTS.values():
        for num_rows, has_zeros in CHECKED:
            matrix = matrix_of(product, has_zeros=has_zeros)
            x = torch.randn(num_rows, product.num_inputs, device=DEVICE, dtype=torch.bfloat16)
            found = product.int4(x, matrix).float()
            wanted = product.twin(x.float(), matrix)
            if found.ndim == 3:
                found, wanted = found.sum(0), wanted.sum(0)
            tolerance = 2e-2 * float(wanted.abs().max())
            torch.testing.assert_close(found, wanted, rtol=2e-2, atol=tolerance)
