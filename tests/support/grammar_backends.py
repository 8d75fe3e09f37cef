"""The grammar backends with which a test runs: some compile only some kinds of guides, and some
have no native interface."""

from __future__ import annotations

from specguide.guided.backends import backend_names, backend_spec

PYTHON_ALONE: tuple[str, ...] = ()
"""Backends without a native interface. New ones must be added here."""


def ways(name: str) -> tuple[str, ...]:
    """The interfaces of a backend."""
    return ("python",) if name in PYTHON_ALONE else ("native", "python")


def _is_whole(name: str) -> bool:
    spec = backend_spec(name)
    return spec.capabilities is not None and spec.grammars is not None


WHOLE = tuple(name for name in backend_names() if _is_whole(name) and "native" in ways(name))
"""Backends that compile every kind of guide and have a native interface."""
KINDS = [f"{name}-{how}" for name in backend_names() for how in ways(name)]
"""All backends, with each of their interfaces."""
