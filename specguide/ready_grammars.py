"""Owns where the ready grammars and formats are: the top-level folder `grammars/`, which is
installed as the package's data."""

from __future__ import annotations

from pathlib import Path

_INSTALLED = Path(__file__).parent / "grammars"
_IN_THE_SOURCES = Path(__file__).parent.parent / "grammars"


def grammars_folder() -> Path:
    """The folder; in an installation from the sources in place, that of the sources."""
    return _INSTALLED if _INSTALLED.is_dir() else _IN_THE_SOURCES
