"""Owns a process of a service as its supervisor sees it."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from specguide.server import fork_server
from specguide.server.fork_server import FORKS, LOADED

_SPAWN = multiprocessing.get_context("spawn")  # a fork would have all of the supervisor's sockets

NO_CHANGES: Mapping[str, str] = {}


class Child:
    """A process that calls `function(plan, control, parent_pid)`; control is its end of a pipe.

    name:     of the process
    environ:  added to its environment before `function` is imported
    function: "module:name"; this process does not import it
    is_fork:  of the fork server, which may have imported it
    control:  what it says is read here
    sentinel: readable once the process has ended
    is_ready: for whoever hears that it is
    """

    def __init__(
        self,
        name: str,
        function: str,
        plan: Any,
        environ: Mapping[str, str] = NO_CHANGES,
        *,
        is_fork: bool = False,
    ) -> None:
        self.name, self.is_ready, self._is_silent = name, False, False
        self.control, theirs = _SPAWN.Pipe()
        args = environ, function, plan, theirs
        self._process = (is_fork and self._fork(environ, args)) or self._spawn(args)
        theirs.close()
        self.sentinel = self._process.sentinel

    def _spawn(self, args: tuple[Any, ...]) -> BaseProcess:
        process = _SPAWN.Process(target=_enter, args=(*args, os.getpid()), name=self.name)
        process.start()
        return process

    def _fork(self, environ: Mapping[str, str], args: tuple[Any, ...]) -> BaseProcess | None:
        """None where the fork server ends meanwhile."""
        process = FORKS.Process(target=_enter, args=(*args, None), name=self.name)
        try:
            fork_server.start(environ)
            process.start()
        except (EOFError, OSError):
            return None
        return process

    @property
    def sources(self) -> tuple[Connection | int, ...]:
        """What to wait for: words of it, and its end."""
        return (self.sentinel,) if self._is_silent else (self.sentinel, self.control)

    @property
    def end(self) -> str:
        """How it ended, in words."""
        code = self._process.exitcode or 0
        if code < 0:
            return f"{self.name} was ended by {signal.Signals(-code).name}"
        return f"{self.name} ended with exit code {code}"

    def hear(self) -> Any:
        """What it says next; None where it has ended."""
        try:
            return self.control.recv()
        except (EOFError, OSError):
            self._is_silent = True
            return None

    def tell(self, order: Any) -> None:
        """Say something to it; nothing where it has ended."""
        with suppress(OSError):
            self.control.send(order)

    def kill(self) -> None:
        """End it at once, whatever it is at."""
        self._process.kill()

    def bury(self) -> None:
        """Nothing is left of one that has ended or was killed."""
        self._process.join()
        self.control.close()


def _enter(
    environ: Mapping[str, str], function: str, plan: Any, control: Connection, parent: int | None
) -> None:
    """parent: None: the fork server"""
    os.environ.update(environ)
    module, _, name = function.partition(":")
    parent_pid = importlib.import_module(LOADED).PID if parent is None else parent
    getattr(importlib.import_module(module), name)(plan, control, parent_pid)
