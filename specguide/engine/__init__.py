"""Owns the engine loop and what a whole engine is built from."""

from specguide.engine.engine import Engine
from specguide.engine.stats import EngineStats

__all__ = ["Engine", "EngineStats"]
