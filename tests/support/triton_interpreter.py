"""Owns Triton's interpreter: where there is no GPU it runs the kernels on CPU tensors."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from functools import cache

import pytest
import torch

from specguide.kernels import attention
from specguide.kernels.operation import Implementations


def runs_kernels() -> bool:
    """Whether kernels are interpreted here. To be asked before Triton is imported, which it tells
    so."""
    if torch.cuda.is_available() or importlib.util.find_spec("triton") is None:
        return False
    os.environ["TRITON_INTERPRET"] = "1"
    return True


def put_in(patch: pytest.MonkeyPatch) -> None:
    """Operations and attention run their Triton implementations on CPU tensors."""
    for implementations in _all_implementations():
        patch.setitem(implementations, torch.device("cpu"), implementations.triton())
    patch.setitem(attention.BACKENDS, "cpu", attention.BACKENDS["cuda"])
    _mend(patch)
    _quicken(patch)


def _all_implementations() -> Iterator[Implementations]:
    rooms = [module for name, module in sys.modules.items() if name.startswith("specguide.")]
    for room in rooms:
        for value in vars(room).values():
            if isinstance(found := getattr(value, "implementations", None), Implementations):
                yield found


def _mend(patch: pytest.MonkeyPatch) -> None:
    """The interpreter gives comparisons the type of what they compare, multiplies the bits of
    bfloat16, and loses the carry where it rounds."""
    from triton import language as tl
    from triton.runtime import interpreter

    builder = interpreter.InterpreterBuilder
    torch_dtypes = {
        tl.float32: torch.float32,
        tl.float16: torch.float16,
        tl.bfloat16: torch.bfloat16,
        tl.float8e4nv: torch.float8_e4m3fn,
    }

    def binary_op(self, left, right, op, unmended=builder.binary_op):
        result = unmended(self, left, right, op)
        if result.data.dtype == bool:
            result.dtype = tl.int1
        return result

    def create_dot(self, left, right, total, *options, unmended=builder.create_dot):
        if left.dtype.scalar == tl.bfloat16:
            left, right = (self.cast_impl(operand, tl.float32) for operand in (left, right))
        return unmended(self, left, right, total, *options)

    def convert_float(values, dtype, new_dtype, rounding_mode):
        as_tensor = torch.from_numpy(values.copy()).view(torch_dtypes[dtype.scalar])
        converted = as_tensor.to(torch_dtypes[new_dtype.scalar])
        return converted.view(_BITS[converted.element_size()]).numpy()

    patch.setattr(builder, "binary_op", binary_op)
    patch.setattr(builder, "create_dot", create_dot)
    patch.setattr(interpreter, "_convert_float", convert_float)


def _quicken(patch: pytest.MonkeyPatch) -> None:
    """A third of the interpreter's time goes into tables of types, and into patching its language
    for each function that a kernel calls, which the kernel's launch has done already."""
    from triton import language as tl
    from triton.runtime import interpreter

    @cache
    def languages(function):
        return [one for one in function.__globals__.values() if one is tl or one is tl.core]

    def patch_lang(function, unmended=interpreter._patch_lang):
        is_done = not any(tl.core.is_builtin(one.load) for one in languages(function))
        return interpreter._LangPatchScope() if is_done else unmended(function)

    patch.setattr(interpreter, "_patch_lang", patch_lang)
    numpy_type = interpreter._get_np_dtype
    of_number = cache(numpy_type)

    def get_np_dtype(dtype):
        scalar = dtype.scalar
        return numpy_type(scalar) if scalar.is_ptr() else of_number(scalar)

    patch.setattr(interpreter, "_get_np_dtype", get_np_dtype)


_BITS = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32}
