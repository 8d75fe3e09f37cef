"""Owns a core's loop in a thread of the test, which fronts of the same process talk to."""

from __future__ import annotations

import math
import multiprocessing
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from specguide.config import EngineConfig
from specguide.engine import Engine
from specguide.engine.serving.control import CorePlan, Stop
from specguide.engine.serving.core import Fronts, facts_of_core
from specguide.engine.serving.loop import EngineLoop
from specguide.engine.serving.remote_engine import RemoteEngine


class CoreThread:
    """A core's loop in a thread. control: the supervisor's end of its pipe"""

    def __init__(
        self,
        config: EngineConfig,
        folder: Path,
        max_waiting: int = 64,
        max_wait_s: float = math.inf,
    ) -> None:
        self.address = f"ipc://{folder}/core"
        self.engine = Engine(config, makes_texts=False)
        self.control, theirs = multiprocessing.Pipe()
        plan = CorePlan(config, self.address, max_waiting, max_wait_s, may_restart=False)
        self.fronts = Fronts(self.engine, plan, theirs)
        self.fronts.loop = EngineLoop(self.engine, self.fronts, self.fronts)
        self._thread = threading.Thread(target=self.fronts.loop.run, daemon=True)
        self._thread.start()

    def front(self, name: str = "front") -> RemoteEngine:
        """A new front. Needs a running event loop."""
        facts = facts_of_core(self.engine, self.fronts.max_unfinished)
        front = RemoteEngine(facts, self.engine.tokenizer, name)
        front.connect(self.address)
        return front

    def stop(self) -> None:
        """Checks that no request outlived its end, and that the engine is whole."""
        self.control.send(Stop(5.0))
        self._thread.join(10)
        assert not self._thread.is_alive() and self.fronts.loop.num_live == 0
        self.fronts._socket.close()
        if self.engine.failure is None:
            self.engine.check_integrity()


@contextmanager
def core_thread(config: EngineConfig, folder: Path, **options: int) -> Iterator[CoreThread]:
    core = CoreThread(config, folder, **options)
    try:
        yield core
    finally:
        core.stop()
