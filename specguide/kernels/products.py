"""Owns which cuBLASLt algorithm multiplies a product: the fastest one that the library proposes.

The library ranks its algorithms for a shape by a model of the GPU, and torch takes the first. Here
they are timed once for each shape, when an iteration first runs; the graph that is captured next
uses the fastest. `python -m benchmarks.library_products` shows the gain.
"""

from __future__ import annotations

import gc
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from typing import NamedTuple

import torch
from torch import Tensor

from specguide.kernels.cublaslt import ALIGNMENT_BYTES, TYPES, Shape, Way, library
from specguide.kernels.host_values import on_device

_NUM_ROUNDS, _NUM_LAUNCHES = 4, 4
NUM_TIMED_WEIGHTS = 4
"""Number of weights of one shape that are timed in turn. With a single weight, an algorithm would
gain from what it left in the cache itself."""
_LEAST_GAIN = 0.02
"""Minimum gain, as a share of the time of torch's product; a smaller one may be chance."""
_LEAST_BYTES, _LEAST_BYTES_IN_TURN = 8 << 20, 64 << 20
"""Minimum bytes of a weight, and of all timed weights of its shape together: less would stay in the
cache."""
_MOST_ROWS = 2304
"""Maximum rows of a product that is timed: larger ones are rare, and need much memory."""
_MOST_SHAPES = 64
_NUM_NUMBERS = 7
"""Maximum new products that ranks tell one another at a time, and the numbers that describe
each."""


class Product(NamedTuple):
    """A product that is timed. has_halves: torch's own version multiplies both halves of the
    columns separately, each to float32, and leaves their sum to the caller"""

    shape: Shape
    has_halves: bool = False

    @property
    def numbers(self) -> list[int]:
        """The numbers that identify a product; ranks with the same product have the same
        numbers."""
        shape = self.shape
        sizes = shape.num_rows, shape.num_outputs, shape.num_inputs
        return [TYPES[shape.dtype], TYPES[shape.output_dtype], *sizes, int(self.has_halves)]


Gather = Callable[[Tensor], Tensor]
"""A function from one rank's values, int64 [n], to those of all ranks, [ranks, n]."""

_ways: dict[Product, Way | None] = {}


class _Noticed(threading.local):
    """The weights of each product that this thread has met; None: nobody is collecting them."""

    weights: dict[Product, list[Tensor]] | None = None


_noticed = _Noticed()


@contextmanager
def choosing(device: torch.device, gather: Gather | None = None) -> Iterator[None]:
    """A context that times, when it ends, the products that this thread asked for inside it. It
    does nothing without a GPU.

    gather: gathers values of all ranks. All ranks take the choice of the first rank that has the
            product, and so compute alike; None: there is one rank
    """
    if device.type != "cuda" or library() is None:
        yield
        return
    noticed: dict[Product, list[Tensor]] = {}
    _noticed.weights = noticed
    try:
        yield
        best = {one: best_of(_times(one, weights)) for one, weights in noticed.items()}
    finally:
        _noticed.weights = None
    if gather is not None:
        best = _agreed(best, device, gather)
    for one, index in best.items():
        _ways[one] = None if index is None else _proposed(one.shape)[index - 1]


def _agreed(
    best: Mapping[Product, int | None], device: torch.device, gather: Gather
) -> dict[Product, int | None]:
    """The best algorithm of each product, as chosen by the first rank that has such a product."""
    rows = [[*one.numbers, index or 0] for one, index in best.items()][:_MOST_SHAPES]
    rows += [[0] * _NUM_NUMBERS] * (_MOST_SHAPES - len(rows))
    said: dict[tuple[int, ...], int] = {}
    for of_rank in gather(on_device(rows, device).flatten()).view(-1, _NUM_NUMBERS).tolist():
        said.setdefault(tuple(of_rank[:-1]), of_rank[-1])
    return {one: said.get(tuple(one.numbers)) or None for one in best}


def product(
    x: Tensor, weight: Tensor, dtype: torch.dtype | None = None, *, has_halves: bool = False
) -> Tensor | None:
    """x · weightᵀ: x [T, in_features], weight [out_features, in_features], of bfloat16, float16 or
    float8 → [T, out_features]. None if no algorithm is known to be faster than torch's.

    dtype: the output's dtype; None: that of x. Float8 uses fast accumulation
    has_halves: see Product
    """
    if not takes(x, weight) or (x.data_ptr() | weight.data_ptr()) % ALIGNMENT_BYTES:
        return None
    stream = torch.cuda.current_stream(x.device).cuda_stream
    shape = Shape(x.device, stream, x.dtype, dtype or x.dtype, len(x), *weight.shape)
    one = Product(shape, has_halves)
    if _noticed.weights is not None and one not in _ways:
        _notice(weight, _noticed.weights.setdefault(one, []))
    way = _ways.get(one)
    return None if way is None else way.product(x, weight)


def halves(x: Tensor, weight: Tensor) -> Tensor:
    """x · weightᵀ in two parts that the caller still has to sum, over the first and the last half
    of the columns, whose number is even: float32 [2, T, out_features]."""
    inputs = x.unflatten(1, (2, -1)).transpose(0, 1)
    return torch.bmm(inputs, weight.unflatten(1, (2, -1)).permute(1, 2, 0), out_dtype=torch.float32)


def _notice(weight: Tensor, weights: list[Tensor]) -> None:
    is_new = all(weight.data_ptr() != one.data_ptr() for one in weights)
    if is_new and len(weights) < NUM_TIMED_WEIGHTS:
        weights.append(weight)


def _proposed(shape: Shape) -> list[Way]:
    found = library()
    return [] if found is None else found.ways(shape)


def takes(x: Tensor, weight: Tensor) -> bool:
    """Whether this product is of a kind that may be timed."""
    return (
        x.dtype in TYPES
        and weight.dtype == x.dtype
        and len(x) <= _MOST_ROWS
        and weight.nbytes >= _LEAST_BYTES
        and x.is_contiguous()
        and weight.is_contiguous()
    )


def best_of(times: Sequence[float]) -> int | None:
    """The index of the fastest algorithm, where the first is torch's; None if no other is clearly
    faster."""
    best = min(range(len(times)), key=lambda index: times[index], default=0)
    is_gain = bool(times) and times[best] < (1 - _LEAST_GAIN) * times[0]
    return best if is_gain else None


def _times(one: Product, weights: Sequence[Tensor]) -> list[float]:
    """The times of torch's product and of each algorithm, milliseconds for some launches; infinite
    for one that does not run. Empty if too little would be read, the stream cannot be captured or
    there is no memory."""
    shape = one.shape
    num_bytes = sum(weight.nbytes for weight in weights)
    if num_bytes < _LEAST_BYTES_IN_TURN or not shape.stream:
        return []
    try:
        with torch.cuda.stream(torch.cuda.ExternalStream(shape.stream, shape.device)):
            graphs = [launch and _captured(launch, weights) for launch in _launches(one, weights)]
            rounds = [
                [math.inf if graph is None else _milliseconds(graph) for graph in graphs]
                for _ in range(_NUM_ROUNDS)
            ]
    except torch.OutOfMemoryError:
        return []
    return [min(times) for times in zip(*rounds, strict=True)]


def _launches(one: Product, weights: Sequence[Tensor]) -> list[Callable[[Tensor], object] | None]:
    """The launch of torch's product, then of each algorithm; None for one that does not run."""
    shape = one.shape
    x = torch.randn(shape.num_rows, shape.num_inputs, device=shape.device).to(shape.dtype)
    output = shape.output()
    found: list[Callable[[Tensor], object] | None] = [_torch_launch(one, x, output)]
    for way in _proposed(shape):
        does_run = way.runs(x, output, weights[0])
        found.append(partial(way.launch, x, output) if does_run else None)
    return found


def _torch_launch(one: Product, x: Tensor, output: Tensor) -> Callable[[Tensor], object]:
    if one.has_halves:
        return partial(halves, x)
    if x.dtype != torch.float8_e4m3fn:
        return lambda weight: torch.mm(x, weight.t(), out=output)
    scale = torch.ones((), device=x.device)
    scaled = partial(torch._scaled_mm, out_dtype=output.dtype, use_fast_accum=True, out=output)
    return lambda weight: scaled(x, weight.t(), scale, scale)


def _captured(
    launch: Callable[[Tensor], object], weights: Sequence[Tensor]
) -> torch.cuda.CUDAGraph:
    """A graph of some launches, so that the host's time is not measured."""
    graph = torch.cuda.CUDAGraph()
    was_enabled = gc.isenabled()
    gc.disable()  # it might free memory, which a thread must not do while it captures
    try:
        graph.capture_begin(capture_error_mode="thread_local")
        for _, weight in zip(range(_NUM_LAUNCHES), cycle(weights), strict=False):
            launch(weight)
        graph.capture_end()
    finally:
        if was_enabled:
            gc.enable()
    return graph


def _milliseconds(graph: torch.cuda.CUDAGraph) -> float:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)
