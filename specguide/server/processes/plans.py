"""Owns what a service and its fronts are started with."""

from __future__ import annotations

from dataclasses import dataclass

from specguide.config import EngineConfig
from specguide.engine.serving.control import CoreFacts, CorePlan
from specguide.guided.reasoning_formats import choose_reasoning_format
from specguide.guided.tools import choose_tool_format
from specguide.server.bodies.sampling_defaults import sampling_defaults
from specguide.server.config import ServerConfig
from specguide.server.processes.listening import Address

CORE = "specguide.engine.serving.core:run_core"
"""Function of a core's process, as Child has it."""


@dataclass(frozen=True)
class ServicePlan:
    """What a service is. Raises InvalidParams for the name of a format that there is not, for which
    requests would be refused otherwise, and CheckpointError for defaults that there cannot be."""

    engine: EngineConfig
    server: ServerConfig

    def __post_init__(self) -> None:
        sampling_defaults(self.server, self.engine.model)
        choose_reasoning_format(self.server.reasoning_format, None)
        if self.server.tool_format is not None:
            choose_tool_format(self.server.tool_format, None)

    def core(self, address: str, *, may_restart: bool) -> CorePlan:
        """What a core is started with. address, may_restart: as of CorePlan"""
        server = self.server
        return CorePlan(
            self.engine,
            address,
            server.max_waiting,
            server.longest_wait_s,
            may_restart,
            server.log_requests,
        )


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
