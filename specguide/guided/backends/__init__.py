"""Owns the registry of grammar backends: each module of this folder is one, described by its
`SPEC`.

`create_backend(name, vocabulary)` binds a library to a vocabulary; `backend_status(name)` says what
is installed.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import warnings
from collections.abc import Iterator
from importlib import metadata
from typing import Any

from specguide.config import GuideConfig
from specguide.errors import EngineError, InvalidGuide, InvalidParams
from specguide.guide import Guide
from specguide.guided.backend import Backend, BackendStatus, CompiledGrammar
from specguide.guided.backend_spec import Adapter, BackendSpec
from specguide.host import env
from specguide.tokenizer.vocabulary import Vocabulary

__all__ = [
    "AUTO",
    "BACKENDS",
    "Backend",
    "BackendStatus",
    "CompiledGrammar",
    "backend_choices",
    "backend_names",
    "backend_spec",
    "backend_status",
    "check_backend",
    "create_backend",
    "requested_backend",
]

AUTO = "auto"
"""The name that asks for the first backend that enforces the guide."""
_ASKED_FOR_PYTHON = "SPECGUIDE_PYTHON_MATCHERS asks for the Python adapter"


def _specs_of_modules() -> Iterator[BackendSpec]:
    for module in pkgutil.iter_modules(__path__):
        yield importlib.import_module(f"{__name__}.{module.name}").SPEC


BACKENDS: dict[str, BackendSpec] = {spec.name: spec for spec in _specs_of_modules()}
"""All backends by name. A backend that is added at run time is used by compiles in this process,
but not by those that GuideConfig.isolate_compiles sends to another process."""


def backend_names() -> tuple[str, ...]:
    """The names of all backends, in the order in which "auto" tries them."""
    return tuple(sorted(BACKENDS, key=lambda name: (BACKENDS[name].rank, name)))


def backend_spec(name: str) -> BackendSpec:
    """The backend of this name. Raises ValueError where there is none."""
    if name not in BACKENDS:
        raise ValueError(
            f"grammar backend {name!r} is unknown; known: {', '.join(backend_names())}"
        )
    return BACKENDS[name]


def backend_choices() -> tuple[str, ...]:
    """The names for which a guide or a configuration may ask."""
    return (AUTO, *backend_names())


def check_backend(config: GuideConfig) -> None:
    """Raise InvalidParams where the configuration asks for a backend that does not exist."""
    if config.backend not in backend_choices():
        raise InvalidParams(
            f"grammar backend {config.backend!r} is unknown; known: {', '.join(backend_choices())}",
            param="guide_backend",
        )


def requested_backend(guide: Guide, config: GuideConfig) -> str:
    """The backend that a guide asks for, or "auto". Raises InvalidGuide where no backend has that
    name."""
    requested = config.backend if guide.backend is None else guide.backend
    if requested not in backend_choices():
        *others, last = (f'"{name}"' for name in backend_choices())
        raise InvalidGuide(
            f"guide backend {requested!r} is unknown; use {', '.join(others)} or {last}",
            param="backend",
        )
    return requested


def create_backend(name: str, vocabulary: Vocabulary, *, native: bool | None = None) -> Backend:
    """A grammar backend for a vocabulary; its own tables are built at the first compile.

    native: True: only with its native interface; False: its Python adapter; None: native where that
            works and `SPECGUIDE_PYTHON_MATCHERS` does not ask otherwise; warns once per backend
            that is not native

    Raises EngineError when the library is not installed, or not native where native is asked for.
    """
    adapter, problem = _load(name)
    if adapter is None:
        raise EngineError(problem)
    if native is False:
        return adapter.bind(vocabulary, None)
    library, reason = adapter.native_library() if native else _native_library(adapter)
    if library is None:
        if native is True:
            raise EngineError(f"{name}'s native interface does not resolve: {reason}")
        _warn_once(name, str(reason))
    return adapter.bind(vocabulary, library)


def backend_status(name: str) -> BackendStatus:
    """The status of a backend on this machine; it compiles a grammar of three tokens to find
    out."""
    adapter, problem = _load(name)
    if adapter is None:
        return BackendStatus(name, None, False, problem)
    library, reason = _native_library(adapter)
    package = backend_spec(name).library.package
    version = "built in" if package is None else metadata.version(package)
    return BackendStatus(name, version, library is not None, reason)


def _native_library(adapter: Adapter) -> tuple[Any, str | None]:
    """The library's native interface and None, or None and the reason why it is not used."""
    return adapter.native_library() if env.native_grammars_enabled() else (None, _ASKED_FOR_PYTHON)


def _load(name: str) -> tuple[Adapter | None, str | None]:
    """The adapter that binds a backend and None, or None and what to do about it. Loads the library
    at the first call."""
    library = backend_spec(name).library
    try:
        return library.load(), None
    except ImportError as error:
        mend = f"; `pip install {library.package}` provides it" if library.package else ""
        return None, f"grammar backend {name} cannot be loaded ({error}){mend}"


@functools.cache
def _warn_once(name: str, reason: str) -> None:
    warnings.warn(
        f"{name} is driven through Python, which is slower and holds the GIL: {reason}",
        RuntimeWarning,
        stacklevel=3,
    )
