"""Owns the lives of a service's processes, one core with the engine and fronts that serve HTTP: it
starts them, watches them and stops them."""

from __future__ import annotations

import math
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from multiprocessing.connection import wait

from specguide.engine.serving.control import (
    CoreDown,
    CoreFacts,
    CoreUp,
    FrontLeft,
    FrontReady,
    StartFailure,
    Stop,
)
from specguide.errors import EngineError, SpecguideError
from specguide.server.config import COUNTS_FOLDER
from specguide.server.http.tls import check_tls
from specguide.server.processes.child import Child
from specguide.server.processes.listening import Reservation
from specguide.server.processes.plans import CORE, FrontPlan, ServicePlan
from specguide.server.processes.service_folder import ServiceFolder

_FRONT = "specguide.server.processes.front:run_front"
_MOST_FAILED_STARTS = 3
"""Most processes in a row that end before they are ready."""
_LONGEST_WAIT_S = 3600.0
"""Longest single wait, seconds: the operating system takes at most 24 days."""
_TOLD_S = 0.5
"""Time for fronts to tell their requests that the core will not come back, seconds."""
_FRONTS_S = 2.0
_CORE_S = 1.0
"""Seconds after drain_s until fronts that have not ended are killed; and then the core."""


class Supervisor:
    """Runs a service until a signal, or until its core ends and may not be restarted.

    When a front ends, its connections are lost, and another front is started. When a core ends, all
    requests are lost, and their clients are told. The first signal, SIGTERM or SIGINT, gives
    requests under way `drain_s` to end; the second ends all at once. No process outlives this one.

    tell: called with messages for the operator
    core: function of the core's process, see Child
    """

    def __init__(self, plan: ServicePlan, tell: Callable[[str], None], *, core: str = CORE) -> None:
        self._plan, self._tell, self._core_function = plan, tell, core
        self._core: Child | None = None
        self._fronts: list[Child] = []
        self._facts: CoreFacts | None = None
        self._error: SpecguideError | None = None
        self._signals: list[int] = []
        self._names = count()
        self._num_failed_starts = 0
        self._is_stopping = False
        self._kill_at_s = math.inf

    def run(self) -> int:
        """Run the service to its end. Returns the command's exit code: 0 once stopped, 128 + its
        number for a signal that ended it at once. Raises the error that kept the core from
        starting, InvalidParams for the address or certificate, and EngineError where the core is
        gone."""
        check_tls(self._plan.server.exposure)
        with ExitStack() as stack:
            self._wakes = stack.enter_context(self._listening_to_signals())
            self._folder = stack.enter_context(ServiceFolder())
            self._reserved = Reservation(self._plan.server.host, self._plan.server.port)
            stack.callback(self._reserved.close)
            stack.callback(self._kill_all)
            self._start_core()
            while self._core is not None or self._fronts:
                self._watch()
                if self._has_to_end_at_once():
                    return 128 + self._signals[-1]
        if self._error is not None:
            raise self._error
        return 0

    @property
    def _children(self) -> list[Child]:
        return [*self._fronts, *([self._core] if self._core else [])]

    def _watch(self) -> None:
        """Wait until something happens, and handle it."""
        children = self._children
        sources = [source for child in children for source in child.sources]
        left_s = max(0.0, self._kill_at_s - time.monotonic())
        happened = wait([self._wakes, *sources], min(left_s, _LONGEST_WAIT_S))
        if self._wakes in happened:
            self._wakes.recv(64)
        for child in children:
            if child.control in happened:
                self._hear(child)
            if child.sentinel in happened:
                self._bury(child)
        if self._signals and not self._is_stopping:
            self._stop(self._plan.server.drain_s)
        if time.monotonic() >= self._kill_at_s:
            self._kill_all()

    def _hear(self, child: Child) -> None:
        match child.hear():
            case CoreFacts() as facts:
                self._take_core(child, facts)
            case StartFailure() as failure:
                self._error = failure.error()
            case FrontReady():
                self._take_ready(child)
                if all(front.is_ready for front in self._fronts):
                    self._tell(f"serving on {self._plan.server.url(self._reserved.port)}")

    def _bury(self, child: Child) -> None:
        child.bury()
        if child is self._core:
            self._core = None
            self._go_on_without_core(child)
        else:
            self._fronts.remove(child)
            self._go_on_without_front(child)

    def _start_core(self) -> None:
        self._address = f"ipc://{self._folder}/core-{next(self._names)}"
        plan = self._plan.core(self._address, may_restart=self._plan.server.restart)
        self._core = Child("the engine's process", self._core_function, plan)

    def _take_core(self, core: Child, facts: CoreFacts) -> None:
        """Use a core that has become ready."""
        self._take_ready(core)
        self._error = None
        self._tell(facts.cache_size if self._facts is None else "serving again")
        self._facts = facts
        for front in self._fronts:
            front.tell(CoreUp(self._address))
        while len(self._fronts) < self._plan.server.api_servers and not self._is_stopping:
            self._start_front(facts)

    def _start_front(self, facts: CoreFacts) -> None:
        name = f"front-{next(self._names)}"
        plan = FrontPlan(name, self._reserved.addresses, self._plan.server, facts)
        front = Child(name, _FRONT, plan, {COUNTS_FOLDER: self._folder})
        if self._core is not None and self._core.is_ready:
            front.tell(CoreUp(self._address))
        self._fronts.append(front)

    def _go_on_without_core(self, core: Child) -> None:
        if self._is_stopping:
            return
        for front in self._fronts:
            front.tell(CoreDown(core.end))
        is_wanted = self._plan.server.restart and self._facts is not None
        if is_wanted and self._may_start_again(core):
            self._tell(f"{core.end}; starting another one")
            self._start_core()
        else:
            self._error = self._error or EngineError(core.end)
            self._stop(_TOLD_S)

    def _go_on_without_front(self, front: Child) -> None:
        if self._core is not None:
            self._core.tell(FrontLeft(front.name))
        if self._is_stopping:
            self._stop_core_behind_fronts()
        elif self._facts is not None and self._may_start_again(front):
            self._tell(f"{front.end}; starting another one")
            self._start_front(self._facts)
        else:
            self._error = EngineError(f"{front.end} before it could serve")
            self._stop(_TOLD_S)

    def _take_ready(self, child: Child) -> None:
        child.is_ready = True
        self._num_failed_starts = 0

    def _may_start_again(self, child: Child) -> bool:
        """Whether to start another process: not after several in a row that never became ready."""
        self._num_failed_starts += not child.is_ready
        return self._num_failed_starts < _MOST_FAILED_STARTS

    def _stop(self, drain_s: float) -> None:
        self._is_stopping = True
        self._kill_at_s = time.monotonic() + drain_s + _FRONTS_S
        for front in self._fronts:
            front.tell(Stop(drain_s))
        self._stop_core_behind_fronts()

    def _stop_core_behind_fronts(self) -> None:
        if not self._fronts:
            self._kill_at_s = time.monotonic() + _CORE_S
            if self._core is not None:
                self._core.tell(Stop(0.0))

    def _has_to_end_at_once(self) -> bool:
        """A second signal has come, or the first one before there was anything to stop."""
        return len(self._signals) > 1 or bool(self._signals and self._facts is None)

    def _kill_all(self) -> None:
        children = self._children
        for child in children:
            child.kill()
        for child in children:
            child.bury()
        self._core = None
        self._fronts = []

    @contextmanager
    def _listening_to_signals(self) -> Iterator[socket.socket]:
        """A socket that becomes readable when a signal comes."""
        ours, theirs = socket.socketpair()
        theirs.setblocking(False)
        before_fd = signal.set_wakeup_fd(theirs.fileno())
        heard = {
            each: signal.signal(each, lambda number, _: self._signals.append(number))
            for each in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield ours
        finally:
            signal.set_wakeup_fd(before_fd)
            for each, handler in heard.items():
                signal.signal(each, handler)
            ours.close()
            theirs.close()
