"""Owns what a service and its fronts are started with."""

from __future__ import annotations

from dataclasses import dataclass

from specguide.config import EngineConfig
from specguide.engine.control import CoreFacts
from specguide.server.config import ServerConfig
from specguide.server.listening import Address

COUNTS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable of fronts, by which prometheus_client counts over several processes: a
folder in which each keeps its counts, and which outlives it. It is read by the import of that
library."""


@dataclass(frozen=True)
class ServicePlan:
    """What a service is."""

    engine: EngineConfig
    server: ServerConfig


@dataclass(frozen=True)
class FrontPlan:
    """What a front is started with.

    name:      which no other front has and had
    addresses: that it listens on, beside other fronts
    facts:     of the engine
    """

    name: str
    addresses: tuple[Address, ...]
    config: ServerConfig
    facts: CoreFacts
