"""Which tile of the Triton kernel is the fastest for each float8 product of a layer of
Llama-3.1-8B, compared with the chosen one.

    python -m benchmarks.float8_tiles [--rows 4,16,64] [--products qkv,down]

Shows what `choose_tile` of specguide.kernels.triton.linear_float8 should return on this GPU. Each
tile's result is compared with the chosen one's before it is timed. Prints, for each product and
number of rows, the fastest tiles, in microseconds, then one JSON line.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product as crossed

from torch import Tensor

from benchmarks.common import argument_parser, emit
from benchmarks.gpu.timing import require_gpus
from benchmarks.kernel_cases.float8 import DTYPE, Inputs, inputs_of
from benchmarks.kernel_cases.shapes import PRODUCT_SHAPES
from benchmarks.kernel_cases.tiles import measured
from specguide.kernels.triton import linear_float8
from specguide.kernels.triton.linear_float8 import Tile

SIZES = (
    *((32, 256, 2, 4), (32, 512, 2, 3), (64, 128, 4, 6), (64, 128, 4, 8), (64, 256, 4, 3)),
    *((64, 256, 4, 4), (64, 256, 4, 6), (64, 512, 4, 3), (128, 128, 4, 4), (128, 128, 4, 6)),
    *((128, 256, 4, 3), (128, 256, 8, 3)),
)
"""Features, columns, warps and stages of a program."""


GATED = "gate_up"
"""Its sums are not spread over programs."""


@dataclass(frozen=True)
class Float8Case:
    """One product of so many rows."""

    product_name: str
    num_rows: int

    @property
    def name(self) -> str:
        return f"fp8 {self.product_name} × {self.num_rows}"

    @property
    def num_bytes(self) -> int:
        num_outputs, num_inputs = PRODUCT_SHAPES[self.product_name]
        return num_outputs * num_inputs

    def inputs(self) -> Inputs:
        return inputs_of(self.num_rows, PRODUCT_SHAPES[self.product_name], has_blocks=False)

    def tiles(self, inputs: Inputs) -> list[Tile]:
        may_split = self.product_name != GATED
        chosen = linear_float8.choose_tile(*inputs, may_split=may_split)
        return [chosen, *self._worth_a_try(chosen, may_split)]

    def product(self, tile: Tile, inputs: Inputs) -> Tensor:
        return linear_float8.launch(*inputs, None, DTYPE, tile)

    def _worth_a_try(self, chosen: Tile, may_split: bool) -> Iterator[Tile]:
        num_outputs, _ = PRODUCT_SHAPES[self.product_name]
        for sizes, num_splits in crossed(SIZES, (1, 2, 4) if may_split else (1,)):
            outputs, columns, num_warps, num_stages = sizes
            if may_split and not 64 <= num_splits * num_outputs // outputs <= 400:
                continue
            yield replace(
                chosen,
                outputs=outputs,
                columns=columns,
                num_splits=num_splits,
                num_warps=num_warps,
                num_stages=num_stages,
            )


def main() -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("--rows", default="4,64", help="comma-separated")
    parser.add_argument("--products", default=",".join(PRODUCT_SHAPES), help="comma-separated")
    args = parser.parse_args()
    require_gpus()
    print("tile: rows, features, columns, splits, warps, stages")
    counts = map(int, args.rows.split(","))
    cases = [
        Float8Case(name, num_rows) for num_rows, name in crossed(counts, args.products.split(","))
    ]
    emit("float8_tiles", vars(args), list(measured(cases)), save=False)


if __name__ == "__main__":
    main()
