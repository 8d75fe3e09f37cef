"""What one captured callback costs on a GPU, by how it is made and by its place in the graph.

    python -m benchmarks.callbacks [--no-save]

A graph holds 64 callbacks: in line, each behind a small kernel; or forked, each on a second stream
beside a matrix product that takes longer than the callback. The cost of a callback is the time of a
replay minus that of the same graph without callbacks, divided by 64; the ceiling is a small kernel
in place of the callback. Before the timing it checks that each callback ran once per replay.
"native" is the grammar executor's own callback with nothing to do, "polling" the same run by a
polling thread, "Python" a @hostfunc through the GIL, "Python, busy" the same while another Python
thread computes. Prints a table, then one JSON line.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from benchmarks import common
from benchmarks.common import argument_parser
from benchmarks.gpu.timing import require_gpus
from benchmarks.soaks.spinners import Spinners
from specguide import native
from specguide.guided.grammar_stream.hostfunc import check as check_hostfuncs
from specguide.guided.grammar_stream.hostfunc import hostfunc

NUM_CALLBACKS, NUM_CHECKED, GEMM_SIZE = 64, 5, 3072
MOST_REPLAYS, MOST_SECONDS = 200, 3.0

Work = Callable[[], Any]


@dataclass(frozen=True)
class Way:
    """A way of making a callback. `make` binds it to a stream; `num_run` counts the calls so far,
    where any is made."""

    name: str
    make: Callable[[torch.cuda.Stream], Work]
    num_run: Callable[[], int] | None = None
    is_busy: bool = False


class NativeCallbacks:
    """The executor's callback 1 without a request: a native function that does nothing, and its
    log, which counts."""

    def __init__(self) -> None:
        self._executor = native.GrammarExecutor(
            native.GrammarBuffers(
                limits=native.DraftLimits(num_draft_tokens=1),
                vocab_size=32,
                bitmask=np.zeros((2, 1, 1), np.int32),
                fill_ids=np.zeros((2, 1), np.int64),
                held=np.zeros(1, np.uint8),
                tokens=np.zeros((1, 2), np.int32),
                num_accepted=np.zeros(1, np.int32),
                needed=np.zeros(1, np.int32),
            ),
            native.ExecutorOptions(num_threads=1, deadline_us=1000),
        )
        self._executor.log_callbacks(2 * NUM_CALLBACKS * NUM_CHECKED)
        self._num_run = 0

    def num_run(self) -> int:
        """Number of callbacks since the start. It must be asked after every few replays."""
        self._num_run += len(self._executor.take_callback_spans())
        return self._num_run

    def launch(self, stream: torch.cuda.Stream) -> Work:
        """As a host function."""
        return partial(native.CudaStream(stream.cuda_stream).launch, self._executor.callbacks()[1])

    def poll(self, stream: torch.cuda.Stream) -> Work:
        """By a polling thread."""
        words = torch.zeros(2 * NUM_CALLBACKS, dtype=torch.int32, pin_memory=True)
        polling = native.PollingStream(
            native.CudaStream(stream.cuda_stream), words.data_ptr(), NUM_CALLBACKS, words
        )
        return partial(polling.launch, self._executor.callbacks()[1])


class PythonCallbacks:
    """A Python function that counts."""

    def __init__(self) -> None:
        self._num_run = 0

    def num_run(self) -> int:
        """Calls since the start."""
        return self._num_run

    def launch(self, stream: torch.cuda.Stream) -> Work:
        """As a host function that takes the GIL."""
        return partial(hostfunc(self._call), stream=stream)

    def _call(self) -> None:
        self._num_run += 1


def small_kernel(stream: torch.cuda.Stream) -> Work:
    """A kernel that ends at once."""

    def launch() -> None:
        with torch.cuda.stream(stream):
            torch.cuda._sleep(0)

    return launch


def ways() -> list[Way]:
    """All that are compared; the first is the floor."""
    host, python = NativeCallbacks(), PythonCallbacks()
    return [
        Way("kernel", small_kernel),
        Way("native", host.launch, host.num_run),
        Way("polling", host.poll, host.num_run),
        Way("Python", python.launch, python.num_run),
        Way("Python, busy", python.launch, python.num_run, is_busy=True),
    ]


def in_line(main: torch.cuda.Stream, way: Way | None) -> Work:
    """A small kernel and a callback, in turn, on one stream."""
    kernel = small_kernel(main)
    callback = way.make(main) if way else None

    def work() -> None:
        for _ in range(NUM_CALLBACKS):
            kernel()
            if callback:
                callback()
        kernel()

    return work


def forked(main: torch.cuda.Stream, way: Way | None) -> Work:
    """A matrix product, with a callback on another stream beside it, and a join."""
    side = torch.cuda.Stream()
    callback = way.make(side) if way else None
    a, b, c = (
        torch.zeros(GEMM_SIZE, GEMM_SIZE, dtype=torch.bfloat16, device="cuda") for _ in range(3)
    )

    def work() -> None:
        for _ in range(NUM_CALLBACKS):
            if callback:
                side.wait_stream(main)
                callback()
            torch.mm(a, b, out=c)
            if callback:
                main.wait_stream(side)

    return work


def captured(main: torch.cuda.Stream, work: Work) -> torch.cuda.CUDAGraph:
    """The graph of `work`. Its kernels are run once before, as a capture requires."""
    with torch.cuda.stream(main):
        warm = torch.zeros(GEMM_SIZE, GEMM_SIZE, dtype=torch.bfloat16, device="cuda")
        torch.mm(warm, warm, out=warm.clone())
        torch.cuda._sleep(0)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=main, capture_error_mode="thread_local"):
        work()
    return graph


def count_calls(graph: torch.cuda.CUDAGraph, way: Way) -> None:
    """Exits unless each replay runs each callback exactly once."""
    assert way.num_run is not None
    before = way.num_run()
    for replays in range(1, NUM_CHECKED + 1):
        graph.replay()
        torch.cuda.synchronize()
        found = way.num_run() - before
        if found != replays * NUM_CALLBACKS:
            sys.exit(f"{way.name}: {found} callbacks ran in {replays} replays of {NUM_CALLBACKS}")
    check_hostfuncs()


def us_per_replay(graph: torch.cuda.CUDAGraph, main: torch.cuda.Stream) -> tuple[float, int]:
    """Median microseconds of stream time, and the number of replays, which come one right behind
    the other."""
    times: list[float] = []
    end_s = time.monotonic() + MOST_SECONDS
    with torch.cuda.stream(main):
        graph.replay()
        while len(times) < MOST_REPLAYS and (len(times) < 3 or time.monotonic() < end_s):
            marks = [torch.cuda.Event(enable_timing=True) for _ in range(6)]
            marks[0].record()
            for mark in marks[1:]:
                graph.replay()
                mark.record()
            marks[-1].synchronize()
            times += [1e3 * a.elapsed_time(b) for a, b in pairwise(marks[1:])]
    return statistics.median(times), len(times)


def measure(
    place: str, arrange: Callable[[torch.cuda.Stream, Way | None], Work]
) -> list[dict[str, Any]]:
    """Microseconds a callback of every way, in one place."""
    main = torch.cuda.Stream()
    without, _ = us_per_replay(captured(main, arrange(main, None)), main)
    print(f"{place}: {without:.1f} µs a replay without callbacks", flush=True)
    rows = []
    for way in ways():
        graph = captured(main, arrange(main, way))
        with Spinners(1) if way.is_busy else nullcontext():
            if way.num_run is not None:
                count_calls(graph, way)
            with_callbacks, replays = us_per_replay(graph, main)
        rows.append(
            {
                "callback": way.name,
                "place": place,
                "replays": replays,
                "us": round((with_callbacks - without) / NUM_CALLBACKS, 2),
            }
        )
        print(
            f"{way.name:<14} {place:<8} {rows[-1]['us']:>10.2f} µs {replays:>8} replays", flush=True
        )
        del graph
    return rows


def main() -> None:
    """Run the benchmark."""
    parser = argument_parser(__doc__)
    parser.add_argument("--no-save", action="store_true", help="print only")
    args = parser.parse_args()
    require_gpus()
    stream = torch.cuda.Stream()
    graph_us, _ = us_per_replay(captured(stream, small_kernel(stream)), stream)
    print(f"a graph of one small kernel: {graph_us:.1f} µs")
    rows = measure("in line", in_line) + measure("forked", forked)
    floors = {"graph_us": round(graph_us, 2)}
    floors |= {
        f"kernel_{row['place'].replace(' ', '_')}_us": row["us"]
        for row in rows
        if row["callback"] == "kernel"
    }
    common.emit(
        "callbacks",
        {"num_callbacks": NUM_CALLBACKS, "gemm_size": GEMM_SIZE, "torch": torch.__version__},
        rows,
        floors,
        save=not args.no_save,
    )


if __name__ == "__main__":
    main()
