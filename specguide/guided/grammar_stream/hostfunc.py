"""Owns `@hostfunc`: Python functions that run in the order of a stream, once or at each replay of a
graph.

    @hostfunc
    def increase() -> None: ...
    increase()                        # on the current CUDA stream; in a capture, in its graph
    increase(stream=HostStream("h"))  # on that stream

The function and its arguments live exactly as long as the graph that captured them; outside a
capture they are freed after the call. The function runs on a thread of the stream and takes the
GIL. So Python must release the GIL while it waits for the stream (torch and the native streams do),
and the function must not call CUDA. An exception is latched, with its traceback, and raised as
EngineError by the stream's `synchronize()` or `check()`, or by `check()` here for CUDA streams of
torch. Native work, such as the grammar executor's callbacks, needs none of this.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch

from specguide import native
from specguide.errors import InvalidParams

_torch_streams: dict[tuple[int, int], native.CudaStream] = {}


class HostFunc:
    """A Python function whose calls are launched on a stream. Made by `hostfunc`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        if "stream" in inspect.signature(function).parameters:
            raise InvalidParams(
                "a hostfunc has no parameter 'stream' of its own: it says where to run",
                param="stream",
            )
        functools.update_wrapper(self, function)
        self._function = function
        self._name = getattr(function, "__qualname__", repr(function))

    def __call__(
        self, *args: Any, stream: native.Stream | torch.cuda.Stream | None = None, **kwargs: Any
    ) -> None:
        """Launch the function on `stream`, by default torch's current CUDA stream, and return at
        once.

        Raises InvalidParams when there is neither.
        """
        if stream is None:
            if not torch.cuda.is_available():
                raise InvalidParams(
                    f"{self._name}() needs stream=…: there is no CUDA here, so no current stream"
                )
            stream = torch.cuda.current_stream()
        launched_on = stream if isinstance(stream, native.Stream) else _native_stream(stream)
        launched_on.launch(native.python_host_function(self._function, args, kwargs, self._name))


def hostfunc(function: Callable[..., Any]) -> HostFunc:
    """Decorate a function so that calling it launches it on a stream. Its result is dropped.

    Raises InvalidParams if the function has a parameter named `stream`.
    """
    return HostFunc(function)


def check() -> None:
    """Raise EngineError with the first error that a hostfunc raised on a CUDA stream of torch."""
    for stream in _torch_streams.values():
        stream.check()


def _native_stream(stream: torch.cuda.Stream) -> native.CudaStream:
    if not isinstance(stream, torch.cuda.Stream):
        given = type(stream).__name__
        raise InvalidParams(
            f"stream must be a native or a torch.cuda stream, not {given}", param="stream"
        )
    key = (stream.device_index, stream.cuda_stream)
    if key not in _torch_streams:
        with torch.cuda.device(stream.device_index):
            _torch_streams[key] = native.CudaStream(
                stream.cuda_stream, f"torch stream {stream.cuda_stream:#x}"
            )
    return _torch_streams[key]
