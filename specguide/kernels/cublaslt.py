"""Owns products by cuBLASLt in the fastest of the ways that it proposes.

The library orders its algorithms for a shape by a model of the GPU, and whoever asks for a product
is given the first. The fastest of the first eight takes up to 9 % less, as for 640 to 2,048 rows
with the gates and ups of an 8B (one H200, `python -m benchmarks.library_products`). They are timed
where that is asked for, as an engine warms up; later products only look up what was found.

What is called, and the numbers of types and attributes, are those of cublasLt.h, 12 and 13 (cuBLAS
documentation, "Using the cuBLASLt API").
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import POINTER, byref, c_float, c_int, c_int64, c_size_t, c_uint64, c_void_p
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

import torch
from torch import Tensor

_NUM_WAYS = 8
_NUM_ROUNDS, _NUM_LAUNCHES = 4, 4
_LEAST_GAIN = 0.02
"""Of the time of the library's own first choice; less may be chance."""
_LEAST_BYTES = 64 << 20
"""Of a weight: a smaller one stays in the cache from one trial to the next, and from layer to layer
it does not."""
_FLOAT32_SUMS, _FLOAT32 = 68, 0
_TYPES = {torch.bfloat16: 14, torch.float16: 2}
_TRANSPOSED, _WORKSPACE = 3, 1


class _Algorithm(ctypes.Structure):
    _fields_ = (("data", c_uint64 * 8),)


class _Proposal(ctypes.Structure):
    _fields_ = (
        ("algorithm", _Algorithm),
        ("workspace", c_size_t),
        ("state", c_int),
        ("num_waves", c_float),
        ("reserved", c_int * 4),
    )


class _Shape(NamedTuple):
    """A product of `num_rows` inputs, and the stream on which it runs: the library has memory of
    its own for each handle, which two streams must not use at once."""

    device: torch.device
    stream: int
    dtype: torch.dtype
    num_rows: int
    num_outputs: int
    num_inputs: int


_ways: dict[_Shape, _Way | None] = {}
_noticed: dict[_Shape, Tensor] | None = None
"""A weight of each shape that came up; None: nobody asks."""


@contextmanager
def choosing() -> Iterator[None]:
    """The products that are asked for meanwhile are timed at the end, with nothing beside."""
    global _noticed
    _noticed = {}
    try:
        yield
        for shape, weight in _noticed.items():
            with torch.cuda.stream(torch.cuda.ExternalStream(shape.stream, shape.device)):
                _ways[shape] = _fastest(shape, weight)
    finally:
        _noticed = None


def product(x: Tensor, weight: Tensor) -> Tensor | None:
    """x · weightᵀ: x [T, in_features], weight [out_features, in_features], of bfloat16 or float16 →
    [T, out_features]. None where no way is known that is faster than torch's product."""
    if not takes(x, weight):
        return None
    stream = torch.cuda.current_stream(x.device).cuda_stream
    shape = _Shape(x.device, stream, x.dtype, len(x), *weight.shape)
    if _noticed is not None and shape not in _ways:
        _noticed[shape] = weight
    way = _ways.get(shape)
    return None if way is None else way.product(x, weight)


def takes(x: Tensor, weight: Tensor) -> bool:
    """Whether this is a product that may be timed."""
    return (
        x.dtype in _TYPES
        and weight.dtype == x.dtype
        and weight.nbytes >= _LEAST_BYTES
        and x.is_contiguous()
        and weight.is_contiguous()
    )


def best_of(times: Sequence[float]) -> int | None:
    """Which of some ways is the fastest, the first being the library's choice; None: that one, or
    nearly that one."""
    best = min(range(len(times)), key=lambda index: times[index], default=0)
    is_gain = bool(times) and times[best] < (1 - _LEAST_GAIN) * times[0]
    return best if is_gain else None


def _fastest(shape: _Shape, weight: Tensor) -> _Way | None:
    library = _library()
    if library is None:
        return None
    x = torch.randn(shape.num_rows, shape.num_inputs, dtype=shape.dtype, device=shape.device)
    output = x.new_empty(shape.num_rows, shape.num_outputs)
    ways = [way for way in library.ways(shape) if way.runs(x, weight, output)]
    launches = [partial(way.launch, x, weight, output) for way in ways]
    rounds = [[_milliseconds(launch) for launch in launches] for _ in range(_NUM_ROUNDS)]
    best = best_of([min(times) for times in zip(*rounds, strict=True)])
    return None if best is None else ways[best]


def _milliseconds(launch: Callable[[], None]) -> float:
    """Of some launches, one behind the other."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(_NUM_LAUNCHES):
        launch()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end)


@dataclass(frozen=True, eq=False)
class _Way:
    """An algorithm for a shape. layouts: of the weight, the inputs and the output, as the library
    sees them: by columns, and so transposed"""

    library: _Library
    shape: _Shape
    description: c_void_p
    layouts: tuple[c_void_p, c_void_p, c_void_p]
    algorithm: _Algorithm

    def product(self, x: Tensor, weight: Tensor) -> Tensor:
        output = x.new_empty(self.shape.num_rows, self.shape.num_outputs)
        self.launch(x, weight, output)
        return output

    def launch(self, x: Tensor, weight: Tensor, output: Tensor) -> None:
        """Raises RuntimeError where the library refuses."""
        if state := self._launch(x, weight, output):
            raise RuntimeError(f"cublasLtMatmul failed with status {state}")

    def runs(self, x: Tensor, weight: Tensor, output: Tensor) -> bool:
        """Tries it; its code is loaded then."""
        return not self._launch(x, weight, output)

    def _launch(self, x: Tensor, weight: Tensor, output: Tensor) -> int:
        weights, inputs, outputs = self.layouts
        handle = self.library.handle(self.shape.device, self.shape.stream)
        return int(
            self.library.matmul(
                *(handle, self.description, byref(_ONE)),
                *(weight.data_ptr(), weights, x.data_ptr(), inputs, byref(_ZERO)),
                *(output.data_ptr(), outputs, output.data_ptr(), outputs),
                *(byref(self.algorithm), None, 0, self.shape.stream),
            )
        )


_ONE, _ZERO = c_float(1), c_float(0)


class _Library:
    """The functions that are called, and what is made with them, which stays."""

    def __init__(self, functions: ctypes.CDLL) -> None:
        self._functions = functions
        self._handles: dict[tuple[torch.device, int], c_void_p] = {}
        self.matmul = functions.cublasLtMatmul
        self.matmul.argtypes = [
            *(c_void_p, c_void_p, POINTER(c_float)),
            *(c_void_p, c_void_p, c_void_p, c_void_p, POINTER(c_float)),
            *(c_void_p, c_void_p, c_void_p, c_void_p),
            *(POINTER(_Algorithm), c_void_p, c_size_t, c_void_p),
        ]

    def handle(self, device: torch.device, stream: int) -> c_void_p:
        if (device, stream) not in self._handles:
            made = c_void_p()
            self._call("cublasLtCreate", byref(made))
            self._handles[device, stream] = made
        return self._handles[device, stream]

    def ways(self, shape: _Shape) -> list[_Way]:
        """What the library proposes that needs no memory of ours, its own choice first."""
        description = c_void_p()
        self._call("cublasLtMatmulDescCreate", byref(description), _FLOAT32_SUMS, _FLOAT32)
        yes = c_int(1)
        self._call(
            "cublasLtMatmulDescSetAttribute", description, _TRANSPOSED, byref(yes), c_size_t(4)
        )
        layouts = (
            self._layout(shape, shape.num_inputs, shape.num_outputs),
            self._layout(shape, shape.num_inputs, shape.num_rows),
            self._layout(shape, shape.num_outputs, shape.num_rows),
        )
        preference, nothing = c_void_p(), c_size_t(0)
        self._call("cublasLtMatmulPreferenceCreate", byref(preference))
        self._call(
            "cublasLtMatmulPreferenceSetAttribute",
            *(preference, _WORKSPACE, byref(nothing), c_size_t(8)),
        )
        proposals, num = (_Proposal * _NUM_WAYS)(), c_int()
        self._call(
            "cublasLtMatmulAlgoGetHeuristic",
            *(self.handle(shape.device, shape.stream), description),
            *(*layouts, layouts[2], preference, _NUM_WAYS, proposals, byref(num)),
        )
        return [
            _Way(self, shape, description, layouts, proposal.algorithm)
            for proposal in proposals[: num.value]
            if not proposal.state
        ]

    def _layout(self, shape: _Shape, num_rows: int, num_columns: int) -> c_void_p:
        """Of numbers that stand column behind column."""
        made = c_void_p()
        self._call(
            "cublasLtMatrixLayoutCreate",
            *(byref(made), _TYPES[shape.dtype]),
            *(c_uint64(num_rows), c_uint64(num_columns), c_int64(num_rows)),
        )
        return made

    def _call(self, name: str, *args: object) -> None:
        if state := getattr(self._functions, name)(*args):
            raise RuntimeError(f"{name} failed with status {state}")


@cache
def _library() -> _Library | None:
    """None where it is not that of a torch for CUDA."""
    if torch.version.cuda is None:
        return None
    major = torch.version.cuda.split(".")[0]
    try:
        return _Library(ctypes.CDLL(f"libcublasLt.so.{major}"))
    except (OSError, AttributeError):
        return None
