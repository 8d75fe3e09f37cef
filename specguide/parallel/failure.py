"""Owns CollectiveFailed, the error of what ranks do together."""

from __future__ import annotations

from specguide.errors import EngineError


class CollectiveFailed(EngineError):
    """Another rank did not take part: it has ended, or was too late."""
