"""Owns Operation: a function with an implementation for each device."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast

import torch


class OnDevice(Protocol):
    """A tensor, or an object whose tensors are all on one device."""

    @property
    def device(self) -> torch.device: ...


_T = TypeVar("_T", bound=OnDevice)
_T_contra = TypeVar("_T_contra", bound=OnDevice, contravariant=True)
_P = ParamSpec("_P")
_R = TypeVar("_R")
_R_co = TypeVar("_R_co", covariant=True)


class Implementations(dict[torch.device, Callable[..., Any]], Generic[_T, _P, _R]):
    """The implementations of an operation; one is chosen when the operation first meets a device.

    twin:   plain, readable torch: it defines the operation, and runs where there is no GPU
    triton: imports and returns the Triton implementation, whose parameters are those of the twin
    native: imports and returns one for a CPU, with the same parameters; None: the twin runs there
    """

    def __init__(
        self,
        twin: Callable[Concatenate[_T, _P], _R],
        triton: Callable[[], Callable[Concatenate[_T, _P], _R]],
        native: Callable[[], Callable[Concatenate[_T, _P], _R]] | None = None,
    ) -> None:
        super().__init__()
        self.twin = twin
        self.triton = triton
        self.native = native

    def __missing__(self, device: torch.device) -> Callable[Concatenate[_T, _P], _R]:
        if device.type == "cuda":
            self[device] = self.triton()
        elif device.type == "cpu" and self.native is not None:
            self[device] = self.native()
        else:
            self[device] = self.twin
        return self[device]


class Operation(Protocol[_T_contra, _P, _R_co]):
    """A function that runs the implementation for the device of its first argument.

    Set `implementations[device]` to run a different one on that device.
    """

    implementations: Implementations[Any, Any, Any]

    def __call__(self, first: _T_contra, /, *args: _P.args, **kwargs: _P.kwargs) -> _R_co: ...


def operation(
    twin: Callable[Concatenate[_T, _P], _R],
    triton: Callable[[], Callable[Concatenate[_T, _P], _R]],
    native: Callable[[], Callable[Concatenate[_T, _P], _R]] | None = None,
) -> Operation[_T, _P, _R]:
    """The implementations as one function; a type checker compares their parameters.

    The device is looked up in a dictionary at each call. So callers need not pass an implementation
    along, and a twin and its Triton kernel can be compared in one process. The dictionary is keyed
    by `torch.device`, and the function is a closure, because reading `device.type` or calling an
    object with `__call__` takes longer than everything that is done here.
    """
    implementations = Implementations(twin, triton, native)

    @wraps(twin)
    def run(*args: Any, **kwargs: Any) -> _R:
        return implementations[args[0].device](*args, **kwargs)

    run.implementations = implementations  # type: ignore[attr-defined]
    return cast(Operation[_T, _P, _R], run)
