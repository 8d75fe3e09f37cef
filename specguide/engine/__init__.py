"""The engine: it runs requests to their end, many at once.

Begin with `engine`, whose `step` is the loop, and `cycle`, which has the loop's verbs. `observers`
get the results of each iteration, and `stats` counts. Each folder is a room of its own and says
where to begin: `setup`, `levels`, `executors`, `kv_transfer`, `requests`; and `serving`, the only
one that knows of servers.
"""

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
