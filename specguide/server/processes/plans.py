"""Owns the data with which a service and its fronts are started."""

from __future__ import annotations

from dataclasses import dataclass

from specguide.config import EngineConfig
from specguide.config.adapters import adapter_folders
from specguide.engine.serving.control import CoreFacts, CorePlan
from specguide.errors import InvalidParams
from specguide.guided.reasoning_formats import choose_reasoning_format
from specguide.guided.tools import choose_tool_format
from specguide.server.bodies.sampling_defaults import sampling_defaults
from specguide.server.config import ServerConfig
from specguide.server.processes.listening import Address

CORE = "specguide.engine.serving.core:run_core"
"""Function of a core's process, for Child."""


@dataclass(frozen=True)
class ServicePlan:
    """The configuration of a service. Raises InvalidParams for an unknown format's name, for which
    requests would be refused later, and for an adapter that is called like the model; and
    CheckpointError for invalid sampling defaults."""

    engine: EngineConfig
    server: ServerConfig

    def __post_init__(self) -> None:
        sampling_defaults(self.server, self.engine.model)
        choose_reasoning_format(self.server.reasoning_format, None)
        if self.server.tool_format is not None:
            choose_tool_format(self.server.tool_format, None)
        adapters = adapter_folders(self.engine.lora_modules)
        if both := adapters.keys() & set(self.server.model_names):
            raise InvalidParams(
                f"lora_modules has an adapter called {min(both)!r}, as the model is: give it "
                "another name, by which requests can ask for it",
                param="lora_modules",
            )

    def core(self, address: str, *, may_restart: bool) -> CorePlan:
        """The data with which a core is started. address, may_restart: see CorePlan"""
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
    """The data with which a front is started.

    name:      a name that no other front has or had
    addresses: to listen on, together with other fronts
    facts:     of the engine
    """

    name: str
    addresses: tuple[Address, ...]
    config: ServerConfig
    facts: CoreFacts
