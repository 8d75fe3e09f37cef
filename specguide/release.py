"""Owns which release of specguide this is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def installed_version() -> str | None:
    """None where specguide runs from a checkout that is not installed."""
    try:
        return version("specguide")
    except PackageNotFoundError:
        return None


def versions() -> str:
    """Versions of what processes of several hosts must have alike."""
    return f"specguide {installed_version()}, torch {version('torch')}"
