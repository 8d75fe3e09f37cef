"""What an all-reduce of two GPUs costs: with NCCL, with memory that ranks share, and with that
memory as a part of the next norm.

    python -m benchmarks.rank_sums [--rows 1,4,16,64,256,512,1024] [--dim 4096]

Each is captured in a CUDA graph, many times one behind the other, on both ranks; microseconds a
call. "norm alone" is what a rank's norm takes without the other's part, "traffic" what the other's
rows take at 450 GB/s, which is NVLink's. Prints a table, then one JSON line.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor

from benchmarks.common import argument_parser, emit
from benchmarks.gpu.timing import require_gpus, seconds_each
from specguide.kernels import add_rms_norm, sum_over_ranks
from specguide.parallel import OWN_HOST, Meeting, Ranks, connect

_NUM_CALLS = 64
_NVLINK_BYTES_PER_S = 450e9


def timed(call: Callable[[], object]) -> float:
    """Microseconds a call, in a graph of many."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        call()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            for _ in range(_NUM_CALLS):
                call()
        times = seconds_each(graph.replay, 12)
    return 1e6 * median(times[2:]) / _NUM_CALLS


def check(ranks: Ranks, x: Tensor) -> None:
    """Exits unless sums are right, and the same on all ranks."""
    peers = ranks.collectives.peers(len(x), x.shape[1], x.dtype)
    assert peers is not None, "the ranks share no memory"
    every = ranks.collectives.gather(x).float().sum(0).to(x.dtype)
    for _ in range(5):
        found = sum_over_ranks(x[None], peers)
        theirs = ranks.collectives.gather(found)
        assert torch.equal(found, every), "a sum is wrong"
        assert (theirs == found).all(), "ranks have other sums"


def measure(ranks: Ranks, num_rows: int, dim: int, device: torch.device) -> dict[str, float]:
    """One row of the table."""
    torch.manual_seed(ranks.rank)
    x, residual = (torch.randn(num_rows, dim, device=device).bfloat16() for _ in range(2))
    weight = torch.ones(dim, device=device).bfloat16()
    check(ranks, x)
    peers = ranks.collectives.peers(num_rows, dim, x.dtype)
    assert peers is not None
    norm = partial(add_rms_norm, residual, x[None], weight, 1e-5)
    calls: dict[str, Callable[[], object]] = {
        "nccl": lambda: ranks.collectives.sum(x),
        "shared": lambda: sum_over_ranks(x[None], peers),
        "shared with norm": lambda: norm(peers=peers),
        "norm alone": norm,
    }
    row = {name: round(timed(call), 2) for name, call in calls.items()}
    row["traffic"] = round(1e6 * x.nbytes * (ranks.size - 1) / _NVLINK_BYTES_PER_S, 2)
    return row


def run(args: argparse.Namespace, ranks: Ranks) -> list[dict[str, Any]]:
    """Runs one rank."""
    device = torch.device("cuda", ranks.rank)
    rows = []
    for num_rows in map(int, args.rows.split(",")):
        with torch.inference_mode():
            rows.append({"rows": num_rows} | measure(ranks, num_rows, args.dim, device))
        if ranks.rank == 0:
            print("  ".join(f"{name} {value:g}" for name, value in rows[-1].items()), flush=True)
    return rows


def main() -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("--rows", default="1,4,16,64,256,512,1024")
    parser.add_argument("--dim", type=int, default=4096)
    parser.add_argument("--port", type=int, help="of the first rank, by which the second comes")
    parser.add_argument("--no-save", action="store_true")
    args = parser.parse_args()
    require_gpus(2)
    os.environ["SPECGUIDE_SHARED_MEMORY"] = "1"
    if args.port is not None:
        meeting = Meeting(args.port, 60.0, (OWN_HOST,) * 2)
        rank = 1
        run(args, connect(meeting, rank, torch.device("cuda", rank)))
        return
    meeting, store = Meeting.open(2, 60.0)
    given = [*sys.argv[1:], "--port", str(meeting.port)]
    with subprocess.Popen([sys.executable, "-m", "benchmarks.rank_sums", *given]) as other:
        rows = run(args, connect(meeting, 0, torch.device("cuda", 0), store))
        other.wait(60)
    emit("rank_sums", vars(args), rows, save=not args.no_save)


if __name__ == "__main__":
    main()
