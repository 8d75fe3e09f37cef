"""Owns the version of the installed release, and the error for an extra that is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

from specguide.errors import InvalidParams


def installed_version() -> str | None:
    """The version of specguide; None where it runs from a checkout that is not installed."""
    try:
        return version("specguide")
    except PackageNotFoundError:
        return None


def versions() -> str:
    """The versions that must be the same on all hosts that run one model together."""
    return f"specguide {installed_version()}, torch {version('torch')}"


@contextmanager
def extra(name: str, what: str, param: str | None = None) -> Iterator[None]:
    """A context for imports of packages that an extra installs. Raises InvalidParams where one is
    not installed.

    name:  the extra
    what:  what needs the package, for the message
    param: the error's `param`
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise InvalidParams(
            f'{what} needs {error.name}: pip install "specguide[{name}]"', param=param
        ) from error
