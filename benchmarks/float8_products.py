"""Times float8 products at Llama-3.1-8B shapes, after comparing them with their twins: which way is
best for how many rows.

    python -m benchmarks.float8_products [--rows 4,64,2048] [--shapes qkv,down] [--ways torch]

Ways are the engine's bfloat16 product, torch's with scales of rows (exact and fast sums) and with
one scale, Triton's with scales of rows and of blocks in several tiles, and what the engine chooses
now. Times are per call, of captured graphs that overflow the cache; beside them stands the time to
read the weight once. The last lines sum up all products of the 32 layers, time the kernels that
round inputs, and say up to how many rows Triton's kernel is to be chosen (`_MOST_ROWS` in
specguide/kernels/triton/linear_float8.py). Prints a table, then one JSON line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.common import argument_parser, emit
from benchmarks.gpu.timing import DEVICE, Call, Make, copy_bandwidth, measure, require_gpus
from benchmarks.kernel_cases.float8 import DTYPE, inputs_of
from benchmarks.kernel_cases.shapes import HIDDEN, INTERMEDIATE, NUM_LAYERS, PRODUCT_SHAPES
from specguide import kernels
from specguide.kernels import Float8Rows, Float8Scaling, float8

ROWS = (1, 4, 8, 16, 32, 64, 96, 128, 256, 512, 1024, 2048)
LIBRARY, NOW = "torch rows", "engine"
FEW_TILES = [(64, 128, 4, 6), (64, 256, 4, 4), (128, 128, 4, 4), (128, 256, 4, 3), (128, 128, 8, 4)]
MANY_TILES = [(128, 128, 8, 3), (128, 128, 8, 4), (64, 128, 4, 4), (128, 256, 8, 2)]
"""Outputs, columns, warps and stages of a program."""


def engine(num_rows: int, shape: tuple[int, int], *, has_blocks: bool = False) -> tuple[Call, int]:
    """As a layer calls it: what is added to the residual stream may come in parts."""
    product = kernels.linear_float8_parts if shape[0] == HIDDEN else kernels.linear_float8
    rows, weight, scale = inputs_of(num_rows, shape, has_blocks=has_blocks)
    return partial(product, rows, weight, scale, None, DTYPE), weight.nbytes


def bfloat16(num_rows: int, shape: tuple[int, int]) -> tuple[Call, int]:
    product = kernels.linear_parts if shape[0] == HIDDEN else kernels.linear
    x = torch.randn(num_rows, shape[1], device=DEVICE, dtype=DTYPE)
    weight = torch.randn(shape, device=DEVICE, dtype=DTYPE)
    return partial(product, x, weight), weight.nbytes


def library(
    num_rows: int, shape: tuple[int, int], *, is_fast: bool = False, has_one_scale: bool = False
) -> tuple[Call, int]:
    """torch's. Its sums are fast where the tensor core adds them up alone, with fewer digits."""
    rows, weight, scale = inputs_of(num_rows, shape, has_blocks=False)
    one = torch.ones((), device=DEVICE)
    scale_a, scale_b = (one, one) if has_one_scale else (rows.scale, scale[None])
    call = partial(
        torch._scaled_mm,
        rows.values,
        weight.t(),
        scale_a,
        scale_b,
        out_dtype=DTYPE,
        use_fast_accum=is_fast,
    )
    return call, weight.nbytes


def triton(
    num_rows: int, shape: tuple[int, int], sizes: tuple[int, ...], *, has_blocks: bool = False
) -> tuple[Call, int]:
    """A call of the Triton kernel with a tile of these sizes, split as the engine splits it."""
    from specguide.kernels.triton import linear_float8

    rows, weight, scale = inputs_of(num_rows, shape, has_blocks=has_blocks)
    chosen = linear_float8.choose_tile(rows, weight, scale, may_split=shape[0] == HIDDEN)
    outputs, columns, num_warps, num_stages = sizes
    tile = linear_float8.Tile(
        chosen.rows, outputs, columns, chosen.num_splits, num_warps, num_stages
    )
    return partial(linear_float8.launch, rows, weight, scale, None, DTYPE, tile), weight.nbytes


def ways(num_rows: int, shape: tuple[int, int]) -> dict[str, Make]:
    """The ways to compute the product, by name."""
    tiles = FEW_TILES if num_rows <= 64 else MANY_TILES
    found: dict[str, Make] = {
        "bfloat16": partial(bfloat16, num_rows, shape),
        NOW: partial(engine, num_rows, shape),
        "engine, blocks": partial(engine, num_rows, shape, has_blocks=True),
        LIBRARY: partial(library, num_rows, shape),
        "torch rows, fast": partial(library, num_rows, shape, is_fast=True),
        "torch one scale": partial(library, num_rows, shape, has_one_scale=True),
        "torch one scale, fast": partial(
            library, num_rows, shape, is_fast=True, has_one_scale=True
        ),
    }
    for sizes in tiles:
        found[f"triton {sizes}"] = partial(triton, num_rows, shape, sizes)
        if sizes[1] == float8.BLOCK:
            blocks = partial(triton, num_rows, shape, sizes, has_blocks=True)
            found[f"blocks {sizes}"] = blocks
    return found


def check() -> None:
    """Exits where a way does not give what its twin gives."""
    for num_rows in (4, 100):
        rows, weight, scale = inputs_of(num_rows, (384, 1024), has_blocks=False)
        _close(kernels.linear_float8(rows, weight, scale, None, DTYPE), rows, weight, scale)
        found = torch._scaled_mm(rows.values, weight.t(), rows.scale, scale[None], out_dtype=DTYPE)
        _close(found, rows, weight, scale)
        rows, weight, scale = inputs_of(num_rows, (384, 1024), has_blocks=True)
        _close(kernels.linear_float8(rows, weight, scale, None, DTYPE), rows, weight, scale)


def _close(found: Tensor, rows: Float8Rows, weight: Tensor, scale: Tensor) -> None:
    expected = float8.linear_float8(rows, weight, scale, None, torch.float32)
    torch.testing.assert_close(found.float(), expected, rtol=2e-2, atol=2e-2)


def time_of(make: Make) -> float | None:
    """Microseconds a call; None where it does not run here."""
    try:
        return round(measure(make)[0] * 1e6, 2)
    except Exception as error:  # a compiler's kinds of errors are its own
        print(f"  does not run: {str(error).splitlines()[0]}", flush=True)
        return None


def measured(
    num_rows: int, name: str, bandwidth: float, prefixes: tuple[str, ...]
) -> dict[str, Any]:
    """Times all ways of one product that begin so and prints them."""
    shape = PRODUCT_SHAPES[name]
    floor_us = round(shape[0] * shape[1] / bandwidth * 1e6, 2)
    print(f"{num_rows:>5} × {name} {shape}; reading the weight takes {floor_us} µs", flush=True)
    wanted = ways(num_rows, shape).items()
    times = {way: time_of(make) for way, make in wanted if way.startswith(prefixes)}
    for way, time in times.items():
        if time is not None:
            print(f"      {way:<28} {time:>9.1f} µs {time / floor_us:>7.2f} × reading", flush=True)
    return {"rows": num_rows, "product": name, "floor_us": floor_us, "us": times}


def totals(found: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Milliseconds of all products of 32 layers by row count: each way alone, and the best Triton
    tile of each product."""
    for num_rows in dict.fromkeys(row["rows"] for row in found):
        rows = [row for row in found if row["rows"] == num_rows]
        kinds: Mapping[str, Callable[[str], bool]] = {
            **{way: way.__eq__ for way in ("bfloat16", NOW, "engine, blocks", LIBRARY)},
            "torch one scale": "torch one scale".__eq__,
            "one scale, fast": "torch one scale, fast".__eq__,
            "best triton": lambda way: way.startswith("triton"),
            "best blocks": lambda way: way.startswith("blocks"),
        }
        yield {
            "rows": num_rows,
            **{kind: _sum_ms(rows, is_kind) for kind, is_kind in kinds.items()},
        }


def _sum_ms(rows: list[dict[str, Any]], is_kind: Callable[[str], bool]) -> float | None:
    best = [
        min((time for way, time in row["us"].items() if is_kind(way) and time), default=None)
        for row in rows
    ]
    return None if None in best else round(NUM_LAYERS * sum(filter(None, best)) / 1e3, 3)


def rounding(num_rows: int) -> dict[str, Any]:
    """Microseconds of the kernels that round inputs, and of those that they stand for."""
    x, gate_up = (
        torch.randn(num_rows, size, device=DEVICE, dtype=DTYPE)
        for size in (HIDDEN, 2 * INTERMEDIATE)
    )
    weight, scaling = torch.ones(HIDDEN, device=DEVICE, dtype=DTYPE), Float8Scaling()
    norm = (x, x[None], weight, 1e-5)
    calls: dict[str, Call] = {
        "add_rms_norm": partial(kernels.add_rms_norm, *norm),
        "add_rms_norm_float8": partial(kernels.add_rms_norm_float8, *norm, scaling),
        "silu_mul": partial(kernels.silu_mul, gate_up),
        "silu_mul_float8": partial(kernels.silu_mul_float8, gate_up, scaling),
        "to_float8": partial(kernels.to_float8, x, scaling),
    }

    def time_alone(call: Call) -> float | None:
        return time_of(lambda: (call, 1 << 30))

    return {"rows": num_rows, **{name: time_alone(call) for name, call in calls.items()}}


def print_rows(rows: list[dict[str, Any]]) -> None:
    """A table of equal rows."""
    print("  ".join(f"{name:>19}" for name in rows[0]))
    for row in rows:
        print("  ".join(f"{value!s:>19}" for value in row.values()), flush=True)


def main() -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("--rows", default=",".join(map(str, ROWS)), help="comma-separated")
    parser.add_argument("--shapes", default=",".join(PRODUCT_SHAPES), help="comma-separated")
    parser.add_argument("--ways", default="", help="those that begin so, comma-separated")
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    require_gpus()
    check()
    bandwidth = copy_bandwidth()
    counts = [int(count) for count in args.rows.split(",")]
    shapes = args.shapes.split(",")
    prefixes = tuple(args.ways.split(","))
    found = [measured(count, name, bandwidth, prefixes) for count in counts for name in shapes]
    sums = list(totals(found))
    rounded = [rounding(count) for count in counts]
    print("\nall products of 32 layers, ms")
    print_rows(sums)
    print("\nrounding, µs")
    print_rows(rounded)
    faster = [row["rows"] for row in sums if (row["best triton"] or 1e9) < (row[LIBRARY] or 1e9)]
    print(f"\nTriton's kernel is the faster one at {faster} rows")
    result = {"products": found, "layers": sums, "rounding": rounded, "triton_at": faster}
    emit(
        "float8_products",
        {**vars(args), "torch": torch.__version__},
        result,
        {"copy_gb_per_s": round(bandwidth / 1e9, 1)},
        save=not args.no_save,
    )


if __name__ == "__main__":
    main()
