"""Which grammar backends a test runs over: one may compile some kinds of guides alone, and may have
no native interface."""

from __future__ import annotations

from specguide.guided.backends import backend_names, backend_spec

PYTHON_ALONE: tuple[str, ...] = ()
"""Those without a native interface. A new one is entered here."""


def ways(name: str) -> tuple[str, ...]:
    """How a backend is driven."""
    return ("python",) if name in PYTHON_ALONE else ("native", "python")


def _is_whole(name: str) -> bool:
    spec = backend_spec(name)
    return spec.capabilities is not None and spec.grammars is not None


WHOLE = tuple(name for name in backend_names() if _is_whole(name) and "native" in ways(name))
"""Those that compile every kind of guide, natively too."""
KINDS = [f"{name}-{how}" for name in backend_names() for how in ways(name)]
"""All of them, in each way."""
