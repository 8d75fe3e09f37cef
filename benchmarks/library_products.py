"""Times products of many bfloat16 rows at Llama-3.1-8B shapes: torch's, which take what cuBLASLt
proposes first, and the fastest of its ways as the engine finds it.

    python -m benchmarks.library_products [--rows 128,256,384,512,640,768,1024,2048]

Compares what both give first. Times are per call, of captured graphs over weights that overflow the
cache. Prints a table, then one JSON line.
"""

from __future__ import annotations

from functools import partial
from itertools import cycle
from statistics import median
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.common import argument_parser, emit
from benchmarks.gpu.timing import CACHE_BYTES, DEVICE, measure, require_gpus
from benchmarks.kernel_cases.shapes import PRODUCT_SHAPES
from specguide import kernels
from specguide.kernels import products

ROWS = (128, 256, 384, 512, 640, 768, 1024, 2048)
DTYPE = torch.bfloat16
NUM_WEIGHTS = 4
BYTES_EACH = CACHE_BYTES // 4
NUM_ROUNDS = 5


def inputs_of(num_rows: int, shape: tuple[int, int]) -> tuple[Tensor, list[Tensor]]:
    """x, and weights that are used in turn."""
    x = torch.randn(num_rows, shape[1], device=DEVICE, dtype=DTYPE)
    scale = shape[1] ** -0.5
    weights = [torch.randn(shape, device=DEVICE, dtype=DTYPE) * scale for _ in range(NUM_WEIGHTS)]
    return x, weights


def measured(num_rows: int, name: str) -> dict[str, Any]:
    """One row, printed. Exits where the ways do not give the same."""
    x, weights = inputs_of(num_rows, PRODUCT_SHAPES[name])
    with products.choosing(DEVICE):
        for weight in weights:
            kernels.linear(x, weight)
    found, expected = kernels.linear(x, weights[0]), F.linear(x, weights[0])
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)
    all_times: dict[str, list[float]] = {"torch": [], "chosen": []}
    for _ in range(NUM_ROUNDS):  # in turn: the clock changes with what ran before
        for way, product in (("torch", F.linear), ("chosen", kernels.linear)):
            calls = (partial(product, x, weight) for weight in cycle(weights))
            seconds, _ = measure(lambda calls=calls: (next(calls), BYTES_EACH))  # type: ignore[misc]
            all_times[way].append(1e6 * seconds)
    times = {way: round(median(found), 1) for way, found in all_times.items()}
    row = {"rows": num_rows, "product": name, "us": times}
    print(f"{num_rows:>5} {name:<8} {times['torch']:>9.1f} {times['chosen']:>9.1f} µs", flush=True)
    return row


def main() -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("--rows", default=",".join(map(str, ROWS)), help="comma-separated")
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    require_gpus()
    counts = [int(count) for count in args.rows.split(",")]
    with torch.cuda.stream(torch.cuda.Stream()):
        found = [measured(count, name) for count in counts for name in PRODUCT_SHAPES]
    result = {"products": found, "torch": torch.__version__}
    emit("library_products", vars(args), result, save=not args.no_save)


if __name__ == "__main__":
    main()
