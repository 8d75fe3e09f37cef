"""Owns an engine's process that only one process talks to: its start, its readiness, and its
end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from specguide.engine.serving.control import CoreFacts, StartFailure, Stop
from specguide.errors import EngineError, InvalidParams
from specguide.server.processes.child import Child
from specguide.server.processes.plans import CORE, ServicePlan
from specguide.server.processes.service_folder import ServiceFolder

_END_S = 2.0
"""Time that a core gets to end once it has been told to stop, seconds."""


class CoreProcess:
    """An engine and its loop, in a process that ends with the process that created it. Used only by
    one event loop's thread; the loop must outlive it.

    end: how it ended, in words; None while it runs
    """

    def __init__(self, plan: ServicePlan) -> None:
        self._folder = ServiceFolder()
        self.address = f"ipc://{self._folder.name}/core"
        core_plan = plan.core(self.address, may_restart=True)
        self.end: str | None = None
        self._child = Child("the engine's process", CORE, core_plan)
        self._loop = asyncio.get_running_loop()
        self._facts: asyncio.Future[CoreFacts] = self._loop.create_future()
        self._on_end: Callable[[str], None] = lambda end: None
        self._loop.add_reader(self._child.control.fileno(), self._hear)
        self._loop.add_reader(self._child.sentinel, self._ended)

    async def ready(self, on_end: Callable[[str], None]) -> CoreFacts:
        """The engine's facts, once it accepts requests. Raises the error that kept it from
        starting.

        on_end: called where the process ends later, with words for how
        """
        facts = await self._facts
        self._on_end = on_end
        return facts

    async def stop(self) -> None:
        """Tell the process to stop, and kill it if it has not ended after `_END_S`."""
        self._child.tell(Stop(0.0))
        deadline_s = self._loop.time() + _END_S
        while self.end is None and self._loop.time() < deadline_s:
            await asyncio.sleep(0.02)
        if self.end is None:
            self._child.kill()
            self._ended()

    def _hear(self) -> None:
        match self._child.hear():
            case CoreFacts() as facts:
                self._facts.set_result(facts)
            case StartFailure() as failure:
                self._fail(failure.error())
            case None:
                self._loop.remove_reader(self._child.control.fileno())

    def _ended(self) -> None:
        self._loop.remove_reader(self._child.sentinel)
        self._loop.remove_reader(self._child.control.fileno())
        self._child.bury()
        self.end = self._child.end
        self._folder.cleanup()
        self._fail(EngineError(self.end))
        self._on_end(self.end)

    def _fail(self, error: InvalidParams | EngineError) -> None:
        if not self._facts.done():
            self._facts.set_exception(error)
