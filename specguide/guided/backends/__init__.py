"""Owns the list of grammar backends.

`create_backend(name, vocabulary)` binds a library to a vocabulary; `backend_status(name)` says what
is installed.
"""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Callable
from importlib import metadata
from types import ModuleType

from specguide import env
from specguide.errors import EngineError
from specguide.guided.backends.base import Backend, BackendStatus, CompiledGrammar
from specguide.guided.backends.llguidance_capabilities import LLGUIDANCE
from specguide.guided.backends.xgrammar_capabilities import XGRAMMAR
from specguide.guided.schema.capabilities import Capabilities
from specguide.tokenizer.vocabulary import Vocabulary

BACKEND_NAMES = ("llguidance", "xgrammar")
_CAPABILITIES = {"llguidance": LLGUIDANCE, "xgrammar": XGRAMMAR}

__all__ = [
    "BACKEND_NAMES",
    "Backend",
    "BackendStatus",
    "CompiledGrammar",
    "backend_status",
    "capabilities",
    "create_backend",
]


def capabilities(name: str) -> Capabilities:
    """What a backend enforces of JSON Schemas; needs no library."""
    return _CAPABILITIES[name]


def create_backend(name: str, vocabulary: Vocabulary, *, native: bool | None = None) -> Backend:
    """A grammar backend for a vocabulary; its own tables are built at the first compile.

    native: True: only if its native interface resolves; False: its Python adapter; None: native
            where it resolves and `SPECGUIDE_PYTHON_MATCHERS` does not ask otherwise, with one
            warning per backend where it is not

    Raises EngineError when the library is not installed, or not native where native is asked for.
    """
    module, problem = _module(name)
    if module is None:
        raise EngineError(problem)
    make: Callable[..., Backend] = module.bind
    if native is False:
        return make(vocabulary, None, "its Python adapter was asked for")
    library, reason = module.native_library()
    if native is None and not env.native_grammars_enabled():
        library, reason = None, "SPECGUIDE_PYTHON_MATCHERS asks for the Python adapter"
    if library is None:
        if native is True:
            raise EngineError(f"{name}'s native interface does not resolve: {reason}")
        _warn_once(name, reason)
    return make(vocabulary, library, reason)


def backend_status(name: str) -> BackendStatus:
    """What was found of a backend on this machine; compiles a grammar of three tokens to find
    out."""
    module, problem = _module(name)
    if module is None:
        return BackendStatus(name, None, False, problem)
    library, reason = module.native_library()
    if not env.native_grammars_enabled():
        library, reason = None, "SPECGUIDE_PYTHON_MATCHERS asks for the Python adapter"
    return BackendStatus(name, metadata.version(name), library is not None, reason)


def _module(name: str) -> tuple[ModuleType | None, str | None]:
    """The module of a backend, or None and what to do about it; a library is loaded when it is
    first asked for."""
    if name not in BACKEND_NAMES:
        raise ValueError(f"grammar backend {name!r} is unknown; known: {', '.join(BACKEND_NAMES)}")
    try:
        return importlib.import_module(f"specguide.guided.backends.{name}"), None
    except ImportError as error:
        return (
            None,
            f"grammar backend {name} cannot be loaded ({error}); `pip install {name}` provides it",
        )


@functools.cache
def _warn_once(name: str, reason: str) -> None:
    warnings.warn(
        f"{name} is driven through Python, which is slower and holds the GIL: {reason}",
        RuntimeWarning,
        stacklevel=3,
    )
