"""Owns compiling Triton kernels before they are launched: all at once on many threads instead of
one after another.

Triton compiles a kernel for each set of constants that it is launched with, and only the code that
launches it knows them. So that code is rehearsed: it runs unchanged on real tensors, but each
launch only compiles, and leaves its outputs alone.
"""

# mypy: allow-untyped-defs

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch

_IS_UNDER_WAY = ContextVar("rehearsal", default=False)


def is_rehearsing() -> bool:
    """Whether launches only compile at this moment. A graph that is captured now would contain no
    kernels."""
    return _IS_UNDER_WAY.get()


class _Compilers(ThreadPoolExecutor):
    """Threads that compile a kernel and load it onto the device."""

    def __init__(self, device: torch.device, num_threads: int) -> None:
        super().__init__(num_threads, "kernel compiler", lambda: torch.cuda.set_device(device))

    def submit(
        self, compile_kernel: Callable[[], Any], /, *args: Any, **kwargs: Any
    ) -> Future[Any]:  # type: ignore[override]
        def compile_and_load() -> Any:
            kernel = compile_kernel()
            kernel[(1,)]  # making its launcher loads it onto the device
            return kernel

        return super().submit(compile_and_load)


@contextmanager
def rehearsal(device: torch.device, num_threads: int) -> Iterator[bool]:
    """A context in which launches only compile, on threads; all kernels are compiled when it ends.

    New tensors are zeros instead of uninitialised, so that what is read from them, such as an
    index, is within bounds. Yields False, and changes nothing, without a GPU and where Triton
    cannot compile on threads: then kernels are compiled when they are launched.
    """
    if device.type != "cuda":
        yield False
        return
    try:
        from triton import AsyncCompileMode  # 3.5 and later
        from triton.runtime.jit import JITFunction
    except ImportError:
        yield False
        return
    launch, empty, empty_like = JITFunction.run, torch.empty, torch.empty_like

    def compile_only(self, *args, grid, warmup, **kwargs):
        kernel = launch(self, *args, grid=grid, warmup=True, **kwargs)
        future = getattr(kernel, "future", None)
        if future is not None and future.done():
            kernel.result()  # from now on a launch finds it at once
        return kernel

    with _Compilers(device, num_threads) as compilers, AsyncCompileMode(compilers):
        JITFunction.run = compile_only
        torch.empty, torch.empty_like = torch.zeros, torch.zeros_like  # type: ignore[assignment]
        under_way = _IS_UNDER_WAY.set(True)
        try:
            yield True
        finally:
            _IS_UNDER_WAY.reset(under_way)
            JITFunction.run = launch
            torch.empty, torch.empty_like = empty, empty_like
