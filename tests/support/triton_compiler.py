"""A pytest plugin that compiles the kernels which the tests launch for a Hopper GPU, and runs none.

    python -m pytest -p triton_compiler -m "gpu and small" tests/gpu

No GPU is needed. It finds what Triton's interpreter does not: what the compiler or the assembler
refuses, and programs that need more shared memory than there is. What kernels would write is not
there, so a test fails by nothing else.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton
import triton_interpreter
from triton.backends.compiler import GPUTarget
from triton.errors import TritonError
from triton.runtime import driver

import specguide.kernels.triton as kernels

_HOPPER = GPUTarget("cuda", 90, 32)
_PROPERTIES = {"max_shared_mem": 232_448, "multiprocessor_count": 132, "warpSize": 32}
_LOADED = (1, 1, 0, 0, 1024)  # module, function, registers, spills, most threads


class _Launcher:
    """A launcher that launches nothing."""

    launch_cooperative_grid = False

    def __init__(self, *compiled: Any) -> None: ...

    def __call__(self, *args: Any, **options: Any) -> None: ...


class _Driver:
    """A GPU that loads whatever it is given."""

    launcher_cls = _Launcher
    utils = SimpleNamespace(
        get_device_properties=lambda device: _PROPERTIES, load_binary=lambda *binary: _LOADED
    )

    def get_current_target(self) -> GPUTarget:
        return _HOPPER

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int = 0) -> int:
        return 0

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")


def _launch_as_on_hopper() -> None:
    """Replace the functions that tell launches what depends on the device."""
    as_there = dict(
        overlap=lambda device: {"OVERLAP": True, "launch_pdl": True},
        num_multiprocessors=lambda device: _PROPERTIES["multiprocessor_count"],
    )
    for module in pkgutil.iter_modules(kernels.__path__, f"{kernels.__name__}."):
        try:
            room = importlib.import_module(module.name)
        except ImportError:  # Gluon's, which not every Triton has
            continue
        for name, function in as_there.items():
            if hasattr(room, name):
                setattr(room, name, function)


driver.set_active(_Driver())
triton_interpreter.runs_kernels = lambda: True
triton_interpreter._mend = lambda patch: None
_launch_as_on_hopper()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fails by what the compiler says alone."""
    try:
        return (yield)
    except (TritonError, triton.TritonError):
        raise
    except Exception:
        return None
