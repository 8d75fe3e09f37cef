"""Owns CollectiveFailed, with which what ranks do together fails."""

from __future__ import annotations

from specguide.errors import EngineError


class CollectiveFailed(EngineError):
    """Another rank did not take part: it has ended, or was too late."""
