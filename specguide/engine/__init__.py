"""Owns the engine loop, blocking and for asyncio, and what a whole engine is built from."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from specguide.engine.serving.served import CloseReport, EngineHealth, ServedEngine
from specguide.engine.serving.stream import RequestDelta, RequestStream
from specguide.engine.stats import EngineStats

if TYPE_CHECKING:
    from specguide.engine.engine import Engine
    from specguide.engine.serving.async_engine import AsyncEngine
    from specguide.engine.shared_engine import SharedEngine

__all__ = [
    "AsyncEngine",
    "CloseReport",
    "Engine",
    "EngineHealth",
    "EngineStats",
    "RequestDelta",
    "RequestStream",
    "ServedEngine",
    "SharedEngine",
]

_WITH_TORCH = {
    "AsyncEngine": "serving.async_engine",
    "Engine": "engine",
    "SharedEngine": "shared_engine",
}


def __getattr__(name: str) -> Any:
    if name in _WITH_TORCH:  # a process that only talks to an engine never needs it
        return getattr(importlib.import_module(f"{__name__}.{_WITH_TORCH[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
