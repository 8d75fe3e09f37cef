"""Times products of many bfloat16 rows at Llama-3.1-8B shapes: torch's, which take what cuBLASLt
proposes first, and those of the way that was the fastest when all were timed.

    python -m benchmarks.library_products [--rows 128,256,384,512,640,768,1024,2048]

Compares what both give first. Times are per call, of captured graphs whose weights overflow the
cache, one way and then the other; weights that fit into it are not timed by the engine either, and
are left out. Prints a table, then one JSON line.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.common import emit
from benchmarks.float8_products import SHAPES
from benchmarks.gpu_timing import DEVICE, measure
from specguide import kernels
from specguide.kernels import cublaslt

ROWS = (128, 256, 384, 512, 640, 768, 1024, 2048)
DTYPE = torch.bfloat16


def inputs_of(num_rows: int, shape: tuple[int, int]) -> tuple[Tensor, Tensor]:
    x = torch.randn(num_rows, shape[1], device=DEVICE, dtype=DTYPE)
    return x, torch.randn(shape, device=DEVICE, dtype=DTYPE) * shape[1] ** -0.5


def measured(num_rows: int, name: str) -> dict[str, Any]:
    """One row, printed. Exits where the ways do not give the same."""
    x, weight = inputs_of(num_rows, SHAPES[name])
    with cublaslt.choosing():
        kernels.linear(x, weight)
    torch.testing.assert_close(kernels.linear(x, weight), F.linear(x, weight), rtol=2e-2, atol=2e-2)
    times = {}
    for way, product in (("torch", F.linear), ("chosen", kernels.linear)):
        call = partial(product, x, weight)
        seconds, _ = measure(lambda call=call: (call, weight.nbytes))  # type: ignore[misc]
        times[way] = round(1e6 * seconds, 1)
    row = {"rows": num_rows, "product": name, "us": times}
    print(f"{num_rows:>5} {name:<8} {times['torch']:>9.1f} {times['chosen']:>9.1f} µs", flush=True)
    return row


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", default=",".join(map(str, ROWS)), help="comma-separated")
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("this benchmark times GPU kernels and finds no CUDA device")
    counts = [int(count) for count in args.rows.split(",")]
    with torch.cuda.stream(torch.cuda.Stream()):
        found = [measured(count, name) for count in counts for name in ("gate_up", "down")]
    result = {"products": found, "torch": torch.__version__}
    emit("library_products", vars(args), result, save=not args.no_save)


if __name__ == "__main__":
    main()
