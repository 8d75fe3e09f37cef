"""Owns stand-ins for torch and transformers, for a process that compiles grammars and has no
tensors.

xgrammar imports both, but compiles without them; they would cost the process two seconds and 200
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
        return _attribute(name)


class _Anything(metaclass=_AnyName):
    """Stands in for every class, function and value of an absent module."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass


def _attribute(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return _Anything


def import_without_torch(library: str) -> bool:
    """Import a grammar library with stand-ins. Returns False where the library needs more of torch
    than names, and so is not imported.

    After False the interpreter may hold half-imported modules: start a new interpreter, and import
    the library there without stand-ins.
    """
    try:
        for name in _ABSENT:
            sys.modules[name] = None  # type: ignore[assignment]  # for optional uses
        importlib.import_module("tvm_ffi")
        for name in _ABSENT:
            sys.modules[name] = ModuleType(name)
            sys.modules[name].__getattr__ = _attribute  # type: ignore[method-assign]
        importlib.import_module(library)
    except ImportError as error:
        return error.name == library  # no name of torch was missing: the library is not installed
    except Exception:
        return False
    return True
