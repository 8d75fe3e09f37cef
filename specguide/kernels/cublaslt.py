"""Owns the calls of cuBLASLt: the algorithms ("ways") that it proposes for a product, and their
launches.

Functions, and the numbers of types and attributes, are those of cublasLt.h, 12 and 13 (cuBLAS
documentation, "Using the cuBLASLt API").
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_float, c_int, c_int8, c_int64, c_size_t, c_uint64, c_void_p
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

import torch
from torch import Tensor

TYPES = {torch.float8_e4m3fn: 28, torch.bfloat16: 14, torch.float16: 2}
"""cuBLASLt's numbers for the dtypes that can be multiplied."""
ALIGNMENT_BYTES = 256
"""The alignment that cuBLASLt assumes for tensors if no preference sets a smaller one."""
_NUM_WAYS = 8
_WORKSPACE_BYTES = 1 << 20
"""Workspace for counters. Algorithms that need more split the sum, and are left to torch."""
_FLOAT32_SUMS, _FLOAT32 = 68, 0
_TRANSPOSED, _FAST_SUMS = 3, 25
"""cuBLASLt's numbers for attributes of a product."""
_MOST_WORKSPACE = 1
"""cuBLASLt's number for an attribute of a preference."""
_ONE, _ZERO = c_float(1), c_float(0)


class Shape(NamedTuple):
    """A product with `num_rows` inputs, and the stream on which it runs. The stream is part of it
    because each handle of the library has a workspace that two streams must not use at once."""

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


@dataclass(frozen=True, eq=False)
class Way:
    """An algorithm for a shape, of the library `of`.

    layouts: of the weight, the inputs and the output. The library stores matrices by columns, so it
             sees them transposed
    """

    of: _Library
    shape: Shape
    description: c_void_p
    layouts: tuple[c_void_p, c_void_p, c_void_p]
    algorithm: _Algorithm

    def product(self, x: Tensor, weight: Tensor) -> Tensor:
        """The product x · weightᵀ, both contiguous."""
        output = self.shape.output()
        self.launch(x, output, weight)
        return output

    def launch(self, x: Tensor, output: Tensor, weight: Tensor) -> None:
        """Write the product to `output`. Raises RuntimeError where the library refuses."""
        if state := self._launch(x, output, weight):
            raise RuntimeError(f"cublasLtMatmul failed with status {state}")

    def runs(self, x: Tensor, output: Tensor, weight: Tensor) -> bool:
        """Whether the algorithm runs. It is tried once, which also loads its code."""
        return not self._launch(x, output, weight)

    def _launch(self, x: Tensor, output: Tensor, weight: Tensor) -> int:
        weights, inputs, outputs = self.layouts
        handle, workspace = self.of.place(self.shape.device, self.shape.stream)
        return int(
            self.of.matmul(
                *(handle, self.description, byref(_ONE)),
                *(weight.data_ptr(), weights, x.data_ptr(), inputs, byref(_ZERO)),
                *(output.data_ptr(), outputs, output.data_ptr(), outputs),
                *(byref(self.algorithm), workspace.data_ptr(), workspace.nbytes, self.shape.stream),
            )
        )


class _Library:
    """The functions of the library that are called, and the handles and workspaces that were made
    with them, which are kept."""

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
        """A handle and a workspace for one stream."""
        if (device, stream) not in self._places:
            handle = c_void_p()
            self._call("cublasLtCreate", byref(handle))
            workspace = torch.empty(_WORKSPACE_BYTES, dtype=torch.uint8, device=device)
            self._places[device, stream] = handle, workspace
        return self._places[device, stream]

    def ways(self, shape: Shape) -> list[Way]:
        """The algorithms that the library proposes for tensors that start at multiples of
        ALIGNMENT_BYTES; none if it does not support the product."""
        description, layouts = self._description(shape), self._layouts(shape)
        preference = c_void_p()
        most = c_size_t(_WORKSPACE_BYTES)
        self._call("cublasLtMatmulPreferenceCreate", byref(preference))
        self._call(
            "cublasLtMatmulPreferenceSetAttribute",
            *(preference, _MOST_WORKSPACE, byref(most), c_size_t(8)),
        )
        proposals = (_Proposal * _NUM_WAYS)()
        num = c_int()
        is_refused = self._functions.cublasLtMatmulAlgoGetHeuristic(
            *(self.place(shape.device, shape.stream)[0], description),
            *(*layouts, layouts[2], preference, _NUM_WAYS, proposals, byref(num)),
        )
        if is_refused:
            return []
        return [
            Way(self, shape, description, layouts, proposal.algorithm)
            for proposal in proposals[: num.value]
            if not proposal.state
        ]

    def _description(self, shape: Shape) -> c_void_p:
        made = c_void_p()
        self._call("cublasLtMatmulDescCreate", byref(made), _FLOAT32_SUMS, _FLOAT32)
        yes, also = c_int(1), c_int8(1)
        set_to = partial(self._call, "cublasLtMatmulDescSetAttribute", made)
        set_to(_TRANSPOSED, byref(yes), c_size_t(4))
        if shape.dtype == torch.float8_e4m3fn:
            set_to(_FAST_SUMS, byref(also), c_size_t(1))
        return made

    def _layouts(self, shape: Shape) -> tuple[c_void_p, c_void_p, c_void_p]:
        return (
            self._layout(shape.dtype, shape.num_inputs, shape.num_outputs),
            self._layout(shape.dtype, shape.num_inputs, shape.num_rows),
            self._layout(shape.output_dtype, shape.num_outputs, shape.num_rows),
        )

    def _layout(self, dtype: torch.dtype, num_rows: int, num_columns: int) -> c_void_p:
        """The layout of a matrix that is stored column by column."""
        made = c_void_p()
        self._call(
            "cublasLtMatrixLayoutCreate",
            *(byref(made), TYPES[dtype]),
            *(c_uint64(num_rows), c_uint64(num_columns), c_int64(num_rows)),
        )
        return made

    def _call(self, name: str, *args: object) -> None:
        if state := getattr(self._functions, name)(*args):
            raise RuntimeError(f"{name} failed with status {state}")


@cache
def library() -> _Library | None:
    """The library that torch has loaded; None if torch is not a CUDA build."""
    if torch.version.cuda is None:
        return None
    major = torch.version.cuda.split(".")[0]
    try:
        return _Library(ctypes.CDLL(f"libcublasLt.so.{major}"))
    except (OSError, AttributeError):
        return None
