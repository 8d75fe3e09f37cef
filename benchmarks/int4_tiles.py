"""Which tile of the Triton kernel is the fastest for each product with weights of 4 bits of a layer
of Llama-3.1-8B, beside the one that is chosen.

    python -m benchmarks.int4_tiles [--rows 4,16,64] [--zeros]

Says for the GPU that it runs on what `choose_tile` of specguide.kernels.triton.int4 should answer.
Each tile's result is compared with the chosen one's before it is timed. Prints, for each product
and number of rows, the fastest tiles, in microseconds, then one JSON line.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import astuple
from functools import partial
from itertools import product as crossed
from typing import Any

import torch
from torch import Tensor

from benchmarks.common import emit
from benchmarks.gpu_timing import DEVICE, Call, measure
from benchmarks.int4_inputs import PRODUCTS, Product, matrix_of, num_bytes
from specguide.kernels import Int4Matrix
from specguide.kernels.triton import int4
from specguide.kernels.triton.int4 import Int4Tile

NUM_SHOWN = 5
GATED, SPLIT = ("gate, up",), ("out", "down")


def tiles(num_rows: int, *, may_split: bool) -> Iterator[Int4Tile]:
    """All that may be worth a try."""
    rows = min(64, max(16, 1 << (num_rows - 1).bit_length()))
    splits = (1, 2, 4) if may_split else (1,)
    shapes = ((32, 2), (64, 4), (128, 8))
    for (block_out, num_warps), num_splits, num_stages in crossed(shapes, splits, (2, 3, 4)):
        yield Int4Tile(rows, block_out, num_splits, num_warps, num_stages)


def call_of(name: str, tile: Int4Tile, x: Tensor, matrix: Int4Matrix) -> Call:
    return partial(int4.launch, x, matrix, None, tile, is_gated=name in GATED)


def made(
    name: str, product: Product, tile: Int4Tile, num_rows: int, has_zeros: bool
) -> tuple[Call, int]:
    matrix = matrix_of(product, has_zeros=has_zeros)
    x = torch.randn(num_rows, product.num_inputs, device=DEVICE, dtype=torch.bfloat16)
    return call_of(name, tile, x, matrix), num_bytes(product, matrix, num_rows)


def timed(name: str, num_rows: int, has_zeros: bool) -> dict[str, float]:
    """Microseconds by tile, fastest first; the chosen one is marked. Tiles that do not fit the GPU
    are left out."""
    product = PRODUCTS[name]
    torch.manual_seed(0)
    matrix = matrix_of(product, has_zeros=has_zeros)
    x = torch.randn(num_rows, product.num_inputs, device=DEVICE, dtype=torch.bfloat16)
    chosen = int4.choose_tile(x, matrix, is_gated=name in GATED, may_split=name in SPLIT)
    wanted = call_of(name, chosen, x, matrix)().float().sum(0)
    found: dict[str, float] = {}
    for tile in dict.fromkeys((chosen, *tiles(num_rows, may_split=name in SPLIT))):
        try:
            output = call_of(name, tile, x, matrix)().float().sum(0)
            seconds, _ = measure(partial(made, name, product, tile, num_rows, has_zeros))
        except Exception as error:  # too much shared memory, too few registers
            print(f"{astuple(tile)}: {str(error)[:80]}")
            continue
        torch.testing.assert_close(output, wanted, rtol=3e-2, atol=3e-2)
        mark = " (chosen)" if tile == chosen else ""
        found[f"{astuple(tile)}{mark}"] = round(seconds * 1e6, 2)
    return dict(sorted(found.items(), key=lambda item: item[1]))


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", default="4,16,64", help="comma-separated")
    parser.add_argument("--products", default=";".join(PRODUCTS), help="separated by semicolons")
    parser.add_argument("--zeros", action="store_true", help="weights that have zeros")
    args = parser.parse_args()
    results: list[dict[str, Any]] = []
    print("tile: rows, features, splits, warps, stages")
    for name, num_rows in crossed(args.products.split(";"), map(int, args.rows.split(","))):
        found = timed(name, num_rows, args.zeros)
        results.append({"product": name, "rows": num_rows, "us": found})
        best = [f"{tile} {us}" for tile, us in found.items()]
        shown = best[:NUM_SHOWN] + [line for line in best[NUM_SHOWN:] if "chosen" in line]
        print(f"{name} × {num_rows}: " + "; ".join(shown), flush=True)
    emit("int4_tiles", vars(args), results, save=False)


if __name__ == "__main__":
    main()
