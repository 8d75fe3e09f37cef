"""Owns the engine loop, blocking and for asyncio, and what a whole engine is built from."""

from specguide.engine.async_engine import AsyncEngine, CloseReport, EngineHealth
from specguide.engine.engine import Engine
from specguide.engine.stats import EngineStats
from specguide.engine.stream import RequestDelta, RequestStream
from specguide.engine.turns import Turns

__all__ = [
    "AsyncEngine",
    "CloseReport",
    "Engine",
    "EngineHealth",
    "EngineStats",
    "RequestDelta",
    "RequestStream",
    "Turns",
]
