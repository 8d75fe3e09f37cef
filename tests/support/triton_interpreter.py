"""Owns Triton's interpreter: where there is no GPU it runs the kernels on CPU tensors."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator

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
    from triton.runtime.interpreter import InterpreterBuilder

    for implementations in _all_implementations():
        patch.setitem(implementations, torch.device("cpu"), implementations.triton())
    patch.setitem(attention.BACKENDS, "cpu", attention.BACKENDS["cuda"])
    patch.setattr(InterpreterBuilder, "binary_op", _of_right_type(InterpreterBuilder.binary_op))


def _all_implementations() -> Iterator[Implementations]:
    rooms = [module for name, module in sys.modules.items() if name.startswith("specguide.")]
    for room in rooms:
        for value in vars(room).values():
            if isinstance(found := getattr(value, "implementations", None), Implementations):
                yield found


def _of_right_type(binary_op):
    """As the interpreter's, which says of a comparison that it has the type of what it compared."""
    from triton.language import int1

    def mended(self, left, right, op):
        result = binary_op(self, left, right, op)
        if result.data.dtype == bool:
            result.dtype = int1
        return result

    return mended
