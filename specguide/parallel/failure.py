"""Owns CollectiveFailed, the error of all calls that ranks make together."""

from __future__ import annotations

from specguide.errors import EngineError


class CollectiveFailed(EngineError):
    """Another rank did not take part: it has ended, or it was too late."""
