"""Owns products by cuBLASLt in the fastest of the ways that it proposes.

The library orders its algorithms for a shape by a model of the GPU, and torch takes the first. They
are timed where that is asked for, as an engine warms up; later products only look up what was
found. `python -m benchmarks.library_products` says what it gains.

What is called, and the numbers of types and attributes, are those of cublasLt.h, 12 and 13 (cuBLAS
documentation, "Using the cuBLASLt API").
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import POINTER, byref, c_float, c_int, c_int8, c_int64, c_size_t, c_uint64, c_void_p
from dataclasses import dataclass
from functools import cache, partial
from itertools import cycle
from typing import NamedTuple

import torch
from torch import Tensor

_NUM_WAYS = 8
_NUM_ROUNDS, _NUM_LAUNCHES = 4, 4
_NUM_WEIGHTS = 4
"""Of one shape, in turn: what one leaves in the cache would help it alone."""
_LEAST_GAIN = 0.02
"""Of the time of torch's product; less may be chance."""
_LEAST_BYTES, _LEAST_BYTES_IN_TURN = 8 << 20, 64 << 20
"""Of a weight, and of those of its shape: fewer would stay in the cache."""
_MOST_ROWS = 2304
"""More are rare, and take memory."""
_WORKSPACE_BYTES = 1 << 20
"""For counters. What takes more splits sums, which is left to torch."""
_FLOAT32_SUMS, _FLOAT32 = 68, 0
_TYPES = {torch.float8_e4m3fn: 28, torch.bfloat16: 14, torch.float16: 2}
_TRANSPOSED, _FAST_SUMS = 3, 25
"""Attributes of a product."""
_MOST_WORKSPACE = 1
"""Attribute of a preference."""


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
    output_dtype: torch.dtype
    num_rows: int
    num_outputs: int
    num_inputs: int

    def output(self) -> Tensor:
        shape = self.num_rows, self.num_outputs
        return torch.empty(shape, dtype=self.output_dtype, device=self.device)


_ways: dict[_Shape, _Way | None] = {}
_noticed: dict[_Shape, list[Tensor]] | None = None
"""Weights of each shape that came up; None: nobody asks."""


@contextmanager
def choosing() -> Iterator[None]:
    """The products that are asked for meanwhile are timed at the end, with nothing beside."""
    global _noticed
    _noticed = {}
    try:
        yield
        for shape, weights in _noticed.items():
            with torch.cuda.stream(torch.cuda.ExternalStream(shape.stream, shape.device)):
                _ways[shape] = _fastest(shape, weights)
    finally:
        _noticed = None


def product(x: Tensor, weight: Tensor, dtype: torch.dtype | None = None) -> Tensor | None:
    """x · weightᵀ: x [T, in_features], weight [out_features, in_features], of bfloat16, float16 or
    float8 → [T, out_features]. None where no way is known that is faster than torch's product.

    dtype: of the output; None: that of x. Float8 is summed fast
    """
    if not takes(x, weight):
        return None
    stream = torch.cuda.current_stream(x.device).cuda_stream
    shape = _Shape(x.device, stream, x.dtype, dtype or x.dtype, len(x), *weight.shape)
    if _noticed is not None and shape not in _ways:
        _notice(weight, _noticed.setdefault(shape, []))
    way = _ways.get(shape)
    return None if way is None else way.product(x, weight)


def _notice(weight: Tensor, weights: list[Tensor]) -> None:
    is_new = all(weight.data_ptr() != one.data_ptr() for one in weights)
    if is_new and len(weights) < _NUM_WEIGHTS:
        weights.append(weight)


def takes(x: Tensor, weight: Tensor) -> bool:
    """Whether this is a product that may be timed."""
    return (
        x.dtype in _TYPES
        and weight.dtype == x.dtype
        and len(x) <= _MOST_ROWS
        and weight.nbytes >= _LEAST_BYTES
        and x.is_contiguous()
        and weight.is_contiguous()
    )


def best_of(times: Sequence[float]) -> int | None:
    """Which of some ways is the fastest, the first being torch's; None: that one, or none is
    clearly faster."""
    best = min(range(len(times)), key=lambda index: times[index], default=0)
    is_gain = bool(times) and times[best] < (1 - _LEAST_GAIN) * times[0]
    return best if is_gain else None


def _fastest(shape: _Shape, weights: Sequence[Tensor]) -> _Way | None:
    library = _library()
    if library is None or sum(weight.nbytes for weight in weights) < _LEAST_BYTES_IN_TURN:
        return None
    x = torch.randn(shape.num_rows, shape.num_inputs, device=shape.device).to(shape.dtype)
    output = shape.output()
    ways = [way for way in library.ways(shape) if way.runs(x, weights[0], output)]
    launches = [partial(_by_torch, x, output=output)]
    launches += [partial(way.launch, x, output=output) for way in ways]
    rounds = [[_milliseconds(launch, weights) for launch in launches] for _ in range(_NUM_ROUNDS)]
    best = best_of([min(times) for times in zip(*rounds, strict=True)])
    return None if best is None else ways[best - 1]


def _by_torch(x: Tensor, weight: Tensor, output: Tensor) -> None:
    if x.dtype == torch.float8_e4m3fn:
        one = torch.ones((), device=x.device)
        scaled_fast = partial(torch._scaled_mm, use_fast_accum=True, out_dtype=output.dtype)
        scaled_fast(x, weight.t(), one, one, out=output)
    else:
        torch.mm(x, weight.t(), out=output)


def _milliseconds(launch: Callable[[Tensor], None], weights: Sequence[Tensor]) -> float:
    """Of some launches, one behind the other."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _, weight in zip(range(_NUM_LAUNCHES), cycle(weights), strict=False):
        launch(weight)
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
        output = self.shape.output()
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
        handle, workspace = self.library.place(self.shape.device, self.shape.stream)
        return int(
            self.library.matmul(
                *(handle, self.description, byref(_ONE)),
                *(weight.data_ptr(), weights, x.data_ptr(), inputs, byref(_ZERO)),
                *(output.data_ptr(), outputs, output.data_ptr(), outputs),
                *(byref(self.algorithm), workspace.data_ptr(), workspace.nbytes, self.shape.stream),
            )
        )


_ONE, _ZERO = c_float(1), c_float(0)


class _Library:
    """The functions that are called, and what is made with them, which stays."""

    def __init__(self, functions: ctypes.CDLL) -> None:
        self._functions = functions
        self._places: dict[tuple[torch.device, int], tuple[c_void_p, Tensor]] = {}
        self.matmul = functions.cublasLtMatmul
        self.matmul.argtypes = [
            *(c_void_p, c_void_p, POINTER(c_float)),
            *(c_void_p, c_void_p, c_void_p, c_void_p, POINTER(c_float)),
            *(c_void_p, c_void_p, c_void_p, c_void_p),
            *(POINTER(_Algorithm), c_void_p, c_size_t, c_void_p),
        ]

    def place(self, device: torch.device, stream: int) -> tuple[c_void_p, Tensor]:
        """A handle and memory that one stream alone uses."""
        if (device, stream) not in self._places:
            handle = c_void_p()
            self._call("cublasLtCreate", byref(handle))
            workspace = torch.empty(_WORKSPACE_BYTES, dtype=torch.uint8, device=device)
            self._places[device, stream] = handle, workspace
        return self._places[device, stream]

    def ways(self, shape: _Shape) -> list[_Way]:
        """What the library proposes."""
        description, layouts = self._description(shape), self._layouts(shape)
        preference, most = c_void_p(), c_size_t(_WORKSPACE_BYTES)
        self._call("cublasLtMatmulPreferenceCreate", byref(preference))
        self._call(
            "cublasLtMatmulPreferenceSetAttribute",
            *(preference, _MOST_WORKSPACE, byref(most), c_size_t(8)),
        )
        proposals, num = (_Proposal * _NUM_WAYS)(), c_int()
        self._call(
            "cublasLtMatmulAlgoGetHeuristic",
            *(self.place(shape.device, shape.stream)[0], description),
            *(*layouts, layouts[2], preference, _NUM_WAYS, proposals, byref(num)),
        )
        return [
            _Way(self, shape, description, layouts, proposal.algorithm)
            for proposal in proposals[: num.value]
            if not proposal.state
        ]

    def _description(self, shape: _Shape) -> c_void_p:
        made = c_void_p()
        self._call("cublasLtMatmulDescCreate", byref(made), _FLOAT32_SUMS, _FLOAT32)
        yes, also = c_int(1), c_int8(1)
        set_to = partial(self._call, "cublasLtMatmulDescSetAttribute", made)
        set_to(_TRANSPOSED, byref(yes), c_size_t(4))
        if shape.dtype == torch.float8_e4m3fn:
            set_to(_FAST_SUMS, byref(also), c_size_t(1))
        return made

    def _layouts(self, shape: _Shape) -> tuple[c_void_p, c_void_p, c_void_p]:
        return (
            self._layout(shape.dtype, shape.num_inputs, shape.num_outputs),
            self._layout(shape.dtype, shape.num_inputs, shape.num_rows),
            self._layout(shape.output_dtype, shape.num_outputs, shape.num_rows),
        )

    def _layout(self, dtype: torch.dtype, num_rows: int, num_columns: int) -> c_void_p:
        """Of numbers that stand column behind column."""
        made = c_void_p()
        self._call(
            "cublasLtMatrixLayoutCreate",
            *(byref(made), _TYPES[dtype]),
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
