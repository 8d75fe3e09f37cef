"""Owns stand-ins for torch and transformers in a process that compiles grammars and has no tensors.

xgrammar imports both and needs neither to compile; they would cost the process two seconds and 200
MB.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

_ABSENT = ("torch", "transformers")


class _AnyName(type):
    def __getattr__(cls, name: str) -> Any:
        return _found(name)


class _Anything(metaclass=_AnyName):
    """Takes the place of every class, function and value of an absent module."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass


def _found(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _Anything


def import_without_torch(library: str) -> bool:
    """Import a grammar library with stand-ins; False where it needs more of torch than names, and
    is not imported.

    After False the interpreter may hold halves of modules: start another one, and import the
    library as it is.
    """
    try:
        for name in _ABSENT:
            sys.modules[name] = None  # type: ignore[assignment]  # tells those who can do without
        importlib.import_module("tvm_ffi")
        for name in _ABSENT:
            sys.modules[name] = ModuleType(name)
            sys.modules[name].__getattr__ = _found  # type: ignore[method-assign]
        importlib.import_module(library)
    except ImportError as error:
        return error.name == library  # it is not installed, with torch or without
    except Exception:
        return False
    return True
