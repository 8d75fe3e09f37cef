"""Which tile of the Triton kernel is the fastest for each product of a layer of Llama-3.1-8B with
4-bit weights, compared with the chosen one.

    python -m benchmarks.int4_tiles [--rows 4,16,64,256] [--zeros]

Shows what `choose_tile` of specguide.kernels.triton.int4 should return on this GPU. Each tile's
result is compared with the chosen one's before it is timed. Prints, for each product and number of
rows, the fastest tiles, in microseconds, then one JSON line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product as crossed

import torch
from torch import Tensor

from benchmarks.common import argument_parser, emit
from benchmarks.gpu.timing import DEVICE, require_gpus
from benchmarks.kernel_cases.int4 import PRODUCTS, Product, matrix_of, num_bytes
from benchmarks.kernel_cases.tiles import measured
from specguide.kernels import Int4Matrix
from specguide.kernels.triton import int4
from specguide.kernels.triton.int4 import Int4Tile

GATED, SPLIT = ("gate, up",), ("qkv", "out", "down")
FEW_SHAPES = (
    *((32, 2, 64, 4, False), (32, 2, 128, 3, False), (64, 2, 64, 4, False)),
    *((64, 4, 64, 4, False), (64, 4, 128, 3, False)),
)
MANY_SHAPES = (
    *((64, 4, 64, 2, True), (64, 4, 32, 4, True), (128, 4, 32, 3, True)),
    *((128, 8, 64, 2, True), (128, 8, 32, 4, True), (128, 8, 64, 3, False)),
    *((256, 8, 32, 3, True), (256, 16, 64, 3, True), (256, 16, 32, 4, True)),
)
"""Features, warps, words a step and stages of a program; whether weights are scaled before they are
multiplied."""


@dataclass(frozen=True)
class Int4Case:
    """One product of so many rows."""

    product_name: str
    num_rows: int
    has_zeros: bool

    @property
    def name(self) -> str:
        return f"int4 {self.product_name} × {self.num_rows}"

    @property
    def kind(self) -> Product:
        return PRODUCTS[self.product_name]

    @property
    def num_bytes(self) -> int:
        return num_bytes(self.kind, self.inputs()[1], self.num_rows)

    @property
    def is_gated(self) -> bool:
        return self.product_name in GATED

    def inputs(self) -> tuple[Tensor, Int4Matrix]:
        matrix = matrix_of(self.kind, has_zeros=self.has_zeros)
        x = torch.randn(self.num_rows, self.kind.num_inputs, device=DEVICE, dtype=torch.bfloat16)
        return x, matrix

    def tiles(self, inputs: tuple[Tensor, Int4Matrix]) -> list[Int4Tile]:
        may_split = self.product_name in SPLIT
        chosen = int4.choose_tile(*inputs, is_gated=self.is_gated, may_split=may_split)
        return [chosen, *self._worth_a_try(may_split)]

    def product(self, tile: Int4Tile, inputs: tuple[Tensor, Int4Matrix]) -> Tensor:
        return int4.launch(*inputs, None, tile, is_gated=self.is_gated)

    def _worth_a_try(self, may_split: bool) -> Iterator[Int4Tile]:
        is_few = self.num_rows <= 16
        num_tiles = -(-self.kind.num_inputs // (4 * 128))
        splits = [num for num in (1, 2, 4, 7, 8) if num_tiles % num == 0] if may_split else [1]
        shapes = FEW_SHAPES if is_few else MANY_SHAPES
        heights = (16,) if is_few else (64,) if self.num_rows <= 64 else (64, 128)
        for height, sizes, num_splits in crossed(heights, shapes, splits):
            block_out, num_warps, step, num_stages, is_folded = sizes
            blocks = -(-self.kind.num_outputs // block_out), -(-self.num_rows // height)
            num_programs = blocks[0] * blocks[1] * num_splits
            if len(splits) > 1 and not is_few and not 96 <= num_programs <= 300:
                continue
            first = height, block_out, num_splits, num_warps, num_stages, step
            yield Int4Tile(*first, is_folded, is_paired=self.is_gated and not is_few)


def main() -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("--rows", default="4,16,64,256", help="comma-separated")
    parser.add_argument("--products", default=";".join(PRODUCTS), help="separated by semicolons")
    parser.add_argument("--zeros", action="store_true", help="weights that have zeros")
    args = parser.parse_args()
    require_gpus()
    print("tile: rows, features, splits, warps, stages, step, folded, paired")
    counts = map(int, args.rows.split(","))
    cases = [
        Int4Case(name, num_rows, args.zeros)
        for num_rows, name in crossed(counts, args.products.split(";"))
    ]
    emit("int4_tiles", vars(args), list(measured(cases)), save=False)


if __name__ == "__main__":
    main()
