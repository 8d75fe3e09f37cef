"""Owns which release of specguide this is, and what is told where an extra is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

from specguide.errors import InvalidParams


def installed_version() -> str | None:
    """None where specguide runs from a checkout that is not installed."""
    try:
        return version("specguide")
    except PackageNotFoundError:
        return None


def versions() -> str:
    """Versions of what processes of several hosts must have alike."""
    return f"specguide {installed_version()}, torch {version('torch')}"


@contextmanager
def extra(name: str, what: str, param: str | None = None) -> Iterator[None]:
    """A context for imports of what an extra installs. Raises InvalidParams where it is not.

    what:  needs it
    param: as of the error
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise InvalidParams(
            f'{what} needs {error.name}: pip install "specguide[{name}]"', param=param
        ) from error
